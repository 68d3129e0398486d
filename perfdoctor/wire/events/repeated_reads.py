"""Events of files that the training process reads again."""

from __future__ import annotations

from . import Event, Line


class RepeatedReadEvent(Event, name="repeated_read"):
    """A line reads a file again as it was read before; totals of one file since the first step."""

    file: int  # the files of a process are numbered from 1
    lines: list[Line]  # of the user's, the innermost first
    reads: int  # the first included
    again_ns: int  # what the others took
