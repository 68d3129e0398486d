"""The rich console that every page is drawn with: into text, nothing interpreted, nothing highlighted."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType


def draw(blocks: Iterable[RenderableType], width: int, colour: bool) -> str:
    """The blocks one below the other as text of `width` columns, without spaces at the ends of lines."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    for block in blocks:
        console.print(block)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().split("\n")[:-1])
