"""`perfdoctor report`: the report of a saved run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def report(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run's id or folder; the newest run without it.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where the runs are kept.")] = None,
) -> None:
    """Show the report of a saved run."""
    from perfdoctor.cli import output, saved

    found = saved.judge(saved.find(run, out))
    if json:
        from perfdoctor.render import json as public

        output.emit(public.dumps(found).decode(), sys.stdout)
        return
    from perfdoctor.render import terminal

    page = terminal.page(found, output.columns(sys.stdout), output.wants_colour(sys.stdout))
    output.emit(page, sys.stdout)
