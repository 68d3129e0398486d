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
    """List what perfdoctor looks for, or explain one tip."""
    from perfdoctor import catalogue
    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError

    known = {entry.id: entry for entry in catalogue.tips()}
    if tip is None:
        width = max(map(len, known), default=0)
        lines = [
            f"{entry.id:<{width}}  {entry.bottleneck.value:<8}  {entry.title}" for entry in known.values()
        ]
        output.emit("".join(f"{line}\n" for line in lines), sys.stdout)
    elif tip in known:
        output.emit(f"{known[tip].title}\n\n{known[tip].doc.strip()}\n", sys.stdout)
    else:
        raise PerfdoctorError(f"there is no tip called {tip}", "list them with: perfdoctor tips")
