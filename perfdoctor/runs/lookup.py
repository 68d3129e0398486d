"""Which run directories the user means: by path, by id, or the newest."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from perfdoctor.errors import NoSuchRun
from perfdoctor.runs import directory


def run_directory(run: str | None, out: str | None) -> Path:
    """The run directory that a path or an id names; the newest one for None. Raises NoSuchRun.

    A folder that holds runs stands for its newest one.
    """
    places = directory.places(out)
    if run is None:
        return _newest(places) or directory.latest(places[0])
    for path in (Path(run), *(place / run for place in places)):
        if path.is_dir():
            return named(run_in(path))
    where = f" --out {shlex.quote(out)}" if out else ""
    raise NoSuchRun(f"no run called {run}", directory.LIST + where)


def _newest(places: Sequence[Path]) -> Path | None:
    """The newest run of these places that was started here; else the newest of the first that has any."""
    found = [run for place in places if (run := directory.newest(place)) is not None]
    told = {run: directory.read_json(run / directory.RUN) or {} for run in found}
    here = [run for run in found if told[run].get("cwd") == directory.working_folder()]
    return max(here, key=lambda run: directory.begun(run, told[run]), default=next(iter(found), None))


def run_in(folder: Path) -> Path:
    """The folder itself where it is a run, or nothing at all; else the newest run that it holds."""
    if directory.is_run(folder):
        return folder
    parents = (folder, folder / "runs", directory.below(folder))
    return next((run for parent in parents if (run := directory.newest(parent)) is not None), folder)


def named(path: Path) -> Path:
    """A path whose last part is a name, as `.` and `..` are not: pages and files call a run by it."""
    return path if path.name not in ("", "..") else Path(os.path.realpath(path))


def run_directories(names: Sequence[str], out: str | None) -> list[Path]:
    """The run directories that the user means: one, or those of a job's nodes; some may be missing."""
    if len(names) < 2:
        return [run_directory(next(iter(names), None), out)]
    paths = []
    for name in names:
        try:
            paths.append(run_directory(name, out))
        except NoSuchRun:
            paths.append(Path(name))  # the report of the others says so
    return paths
