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
    from perfdoctor.model.units import count
    from perfdoctor.render.pages import runs as listing
    from perfdoctor.runs import directory, spans, unended

    places = directory.places(out)
    found = directory.kept(*places)
    if not found:
        raise directory.none_in(places[0])
    groups = [[path] for path in found]
    if spans.meeting(found):
        from perfdoctor.runs import job  # here: it needs numpy, whose import takes as long as a list

        groups = job.grouped(found)
    rows = [
        listing.row(
            path.name, unended.settled(path, found[path]), directory.read_json(path / directory.REPORT) or {}
        )
        for path, *_ in groups
    ]
    output.emit(listing.table(rows, output.columns(sys.stdout)), sys.stdout)
    hidden = len(found) - len(groups)
    if hidden:
        verb = "holds" if hidden == 1 else "hold"
        output.emit(f"{count(hidden, 'more run')} {verb} other ranks of these jobs\n", sys.stdout)
