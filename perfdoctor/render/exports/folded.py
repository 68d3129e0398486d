"""Folded stacks: a line for each, `thread;phase;frame;frame count`, as flame graph programs read them."""

from __future__ import annotations

from perfdoctor.model.recorded import Recorded
from perfdoctor.render import text


def folded(record: Recorded) -> str:
    """A line for each distinct stack; separators inside a name are written as other letters."""
    return "".join(
        f"{';'.join(_name(each) for each in (stack.thread, stack.phase, *stack.frames))} {stack.samples}\n"
        for stack in record.stacks
    )


def _name(name: str) -> str:
    return text.escape_control(name).replace(";", ":")
