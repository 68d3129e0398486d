"""The end of a run for want of memory: where it was, what held it, what would fit."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.model.out_of_memory import OutOfMemory
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.notes import all_worded
from perfdoctor.render.page import BarPart, Bars, Block, CodeLines, Headline, Paragraph

COLOURS = ("green", "cyan", "blue", "yellow", "magenta", "red")


def heading(ended: OutOfMemory) -> str:
    """Where there was none left, of how much."""
    where = {None: "in a worker", "cpu": "on the host"}.get(ended.device, f"on {ended.device}")
    return f"Out of memory {where}, in step {ended.step:,}"


def asked(ended: OutOfMemory) -> str:
    """How much the line wanted."""
    return (
        f"It asked for {text.size(ended.asked_bytes)} more. Memory was held by:" if ended.asked_bytes else ""
    )


def section(ended: OutOfMemory, cwd: str) -> Iterator[Block]:
    """The section of a report."""
    of = f"of {text.size(ended.total_bytes)}" if ended.total_bytes else ""
    yield Headline(blocks.strong(heading(ended), "red"), blocks.quiet(of))
    if ended.at is not None:
        yield CodeLines(((text.path(ended.at.file, cwd), ended.at.line, ended.at.text or ""),))
    if ended.asked_bytes:
        yield Paragraph(asked(ended))
    whole = max(ended.total_bytes or 0, sum(each.held_bytes for each in ended.held)) or 1
    if ended.held:
        yield Bars(
            tuple(
                BarPart(
                    each.name,
                    text.size(each.held_bytes),
                    each.held_bytes / whole,
                    COLOURS[place % len(COLOURS)],
                )
                for place, each in enumerate(ended.held)
            )
        )
    if ended.remedies:
        yield blocks.bullets(all_worded(ended.remedies))
