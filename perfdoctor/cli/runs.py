"""`perfdoctor runs`: the saved runs, newest first."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def runs(
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the runs.")] = None,
) -> None:
    """List the saved runs, newest first; a job with several runs is one line, that of its lowest rank."""
    from perfdoctor.cli import output
    from perfdoctor.errors import NoSuchRun
    from perfdoctor.render.pages import runs as listing
    from perfdoctor.runs import directory, job

    places = directory.places(out)
    found = [path for place in places for path in directory.runs(place)]
    if not found:
        raise NoSuchRun(f"no runs in {places[0]}", "watch a script first: perfdoctor run train.py")
    groups = job.grouped(found)
    rows = [
        listing.row(
            path.name,
            directory.read_json(path / "run.json") or {},
            directory.read_json(path / "report.json") or {},
        )
        for path, *_ in groups
    ]
    output.emit(listing.table(rows, output.columns(sys.stdout)), sys.stdout)
    hidden = len(found) - len(groups)
    if hidden:
        output.emit(f"{hidden:,} more runs hold other ranks of these jobs\n", sys.stdout)
