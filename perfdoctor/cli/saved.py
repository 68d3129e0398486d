"""Saved runs: which one is meant, and its Report."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfdoctor.errors import NoSuchRun, PerfdoctorError

if TYPE_CHECKING:
    from perfdoctor.model import Report
    from perfdoctor.recorded import RunRecords
    from perfdoctor.trace.results import RankTrace

LARGEST_SOURCE_BYTES = 5_000_000  # a longer file is data, whatever its name


def find(run: str | None, out: str | None) -> Path:
    """The run directory that the user means: a path, an id, or (None) the newest."""
    from perfdoctor import rundir

    places = rundir.places(out)
    if run is None:
        newest = [path for place in places for path in rundir.runs(place)[:1]]
        return newest[0] if newest else rundir.latest(places[0])
    for path in (Path(run), *(place / run for place in places)):
        if path.is_dir():
            return path
    hint = "list the runs here with: perfdoctor runs" + (f" --out {out}" if out else "")
    raise NoSuchRun(f"there is no run called {run}", hint)


def judge(path: Path, tell: Callable[[str], None] | None = None) -> Report:
    """The Report of a run directory, computed from its raw files and kept in its report.json.

    With `tell`, what the step model needs of this machine is measured first where it is not known yet, and
    `tell` is called with the reason why that takes a moment.
    """
    from perfdoctor import analysis, recorded, rundir
    from perfdoctor.render import json

    try:
        records = recorded.read(path)
    except PermissionError as error:
        raise PerfdoctorError(
            f"{path} may not be read: {error.strerror}", "check the folder's owner"
        ) from None
    if tell is not None and records.sharing is None:
        from perfdoctor import contention

        records = replace(records, sharing=contention.note(records, tell))
    found = analysis.report(records, SourceLines(), *_windows(path, records))
    with suppress(OSError):  # a run kept by somebody else is read all the same
        rundir.write_json(path / "report.json", json.document(found))
    return found


def _windows(path: Path, records: RunRecords) -> tuple[dict[str, RankTrace], list[str]]:
    """The measured windows of the lowest rank, by kind, and what could not be read."""
    from perfdoctor.trace import files

    measured: dict[str, RankTrace] = {}
    notes = []
    for kind, file in files.windows_of(path, records.ranks).items():
        from perfdoctor.trace.measure import measure  # here: many runs have no window
        from perfdoctor.trace.read import read

        try:
            measured[kind] = measure(read(file))
        except PerfdoctorError as error:
            notes.append(f"a window of torch.profiler could not be read: {error}")
            continue
        if measured[kind].times is None:
            break  # on the CPU, further windows tell the report nothing
    return measured, notes


class SourceLines:
    """Lines of the user's source files, each file read once."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def __call__(self, file: str, line: int) -> str | None:
        """Line number `line`, counted from 1, or None where there is none."""
        if file not in self._files:
            self._files[file] = _lines(file)
        lines = self._files[file]
        return lines[line - 1] if 0 < line <= len(lines) else None


def _lines(file: str) -> list[str]:
    try:
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_SOURCE_BYTES:
            return []
        return Path(file).read_text(encoding="utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return []
