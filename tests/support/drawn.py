"""Pages drawn for a terminal, in one call."""

from __future__ import annotations

from collections.abc import Iterable

from perfdoctor.render import page as blocks
from perfdoctor.render import terminal
from perfdoctor.render.page import Page, Section


def drawn(page: Page | Iterable[Section], width: int = 80, colour: bool = False) -> str:
    """A page, or the one with these sections, as text."""
    return terminal.draw(page if isinstance(page, Page) else blocks.page(page), width, colour)
