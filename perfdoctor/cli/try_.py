"""`perfdoctor try`: apply changes and measure them; not part of this version."""

from __future__ import annotations

from typing import Annotated

import typer

from perfdoctor.errors import PerfdoctorError


def try_(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[--TWEAK VALUE]...", show_default=False)
    ] = None,
) -> None:
    """Try a change and measure it: not in this version."""
    raise PerfdoctorError(
        "try is not available in this version",
        'make the change shown "by hand", run again, and compare the step times: perfdoctor runs',
    )
