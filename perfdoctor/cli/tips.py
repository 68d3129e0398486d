"""`perfdoctor tips`: the catalogue of what perfdoctor can find."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def tips(
    tip: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Explain this tip.", show_default=False)
    ] = None,
) -> None:
    """List what perfdoctor looks for, by class, or explain one tip."""
    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render.pages import tips as tip_pages
    from perfdoctor.tips import catalogue

    tip = tip.replace("_", "-") if tip is not None else None  # as its file is named
    known, planned = {entry.id: entry for entry in catalogue.tips()}, catalogue.planned()
    if tip is None:
        output.emit(tip_pages.listing(list(known.values()), planned, output.columns(sys.stdout)), sys.stdout)
    elif tip in known:
        output.emit(tip_pages.page(known[tip]), sys.stdout)
    elif tip in planned:
        output.emit(f"{tip_pages.planned_page(tip, planned[tip])}\n", sys.stdout)
    else:
        raise PerfdoctorError(f"no tip called {tip}", _nearest(tip, [*known, *planned]))


def _nearest(name: str, known: list[str]) -> str:
    """What to type next: the tip that was probably meant, or the list."""
    import difflib

    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean: perfdoctor tips {close[0]}" if close else "list them with: perfdoctor tips"
