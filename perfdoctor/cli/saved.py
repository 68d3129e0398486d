"""Saved runs: which one is meant, and its Report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfdoctor.errors import NoSuchRun, PerfdoctorError

if TYPE_CHECKING:
    from perfdoctor.model import Report


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
    from perfdoctor.sources import SourceLines
    from perfdoctor.trace import windows

    try:
        records = recorded.read(path)
    except PermissionError as error:
        raise PerfdoctorError(
            f"{path} may not be read: {error.strerror}", "check the folder's owner"
        ) from None
    if tell is not None and records.sharing is None:
        from perfdoctor import contention

        records = replace(records, sharing=contention.note(records, tell))
    found = analysis.report(records, SourceLines(), *windows.measured(path, records))
    with suppress(OSError):  # a run kept by somebody else is read all the same
        rundir.write_json(path / "report.json", json.document(found))
    return found
