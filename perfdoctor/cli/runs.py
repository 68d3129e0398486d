"""`perfdoctor runs`: the saved runs, newest first."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def runs(
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where the runs are kept.")] = None,
) -> None:
    """List the saved runs, newest first; runs of one job are one line, that of its lowest rank."""
    from perfdoctor import jobs, rundir
    from perfdoctor.cli import output
    from perfdoctor.errors import NoSuchRun
    from perfdoctor.render import listing

    places = rundir.places(out)
    found = [path for place in places for path in rundir.runs(place)]
    if not found:
        raise NoSuchRun(f"no runs in {places[0]}", "watch a script first: perfdoctor run train.py")
    groups = jobs.grouped(found)
    rows = [
        listing.row(
            path.name, rundir.read_json(path / "run.json") or {}, rundir.read_json(path / "report.json") or {}
        )
        for path, *_ in groups
    ]
    output.emit(listing.table(rows, output.columns(sys.stdout)), sys.stdout)
    hidden = len(found) - len(groups)
    if hidden:
        output.emit(f"{hidden:,} more hold other ranks of these jobs\n", sys.stdout)
