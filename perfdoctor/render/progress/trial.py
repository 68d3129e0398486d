"""How far a trial is: a live line on stderr, or a line for each execution where that is no terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.note import Remark
from perfdoctor.render import text
from perfdoctor.render.notes import worded
from perfdoctor.render.progress import live_line


@dataclass(frozen=True)
class _Now:
    """What is being measured since `begin_s`."""

    what: str
    done: int
    of: int
    left_s: float | None
    begin_s: float

    def line(self, elapsed_s: float) -> str:
        """In words, `elapsed_s` seconds after its begin."""
        number = f"{self.done + 1} of {self.of}" if self.of > 1 else ""
        left = "" if self.left_s is None else _left(self.left_s - elapsed_s)
        return text.joined([text.escape_control(self.what), number, left])


def _left(seconds: float) -> str:
    return f"about {text.duration(round(seconds))} left" if seconds >= 1.0 else "nearly done"


class TrialProgress:
    """What the trial tells, kept for the live line or written at once."""

    def __init__(self, is_live: bool, say: Callable[[str], None]) -> None:
        self._is_live = is_live
        self._say = say
        self._now: _Now | None = None

    def begin(self, what: str, done: int, of: int, left_s: float | None) -> None:
        """An execution of `what` begins; `done` of `of` are over, and the rest may take `left_s`."""
        self._now = _Now(what, done, of, left_s, time.monotonic())
        if not self._is_live:
            self.say(self._now.line(0.0))

    def say(self, remark: Remark) -> None:
        """Something worth a line of its own."""
        self._say(worded(remark))

    def end(self) -> None:
        """Nothing more is measured."""
        self._now = None

    def line(self, elapsed_s: float) -> str:
        """The live line, which stands since `elapsed_s`."""
        now = self._now
        if now is None:
            return text.duration(round(elapsed_s))
        return now.line(time.monotonic() - now.begin_s)


@contextmanager
def shown(say: Callable[[str], None]) -> Iterator[TrialProgress]:
    """Show on stderr what is told to the object that is handed out; `say` writes a line there."""
    progress = TrialProgress(live_line.is_wanted(sys.stderr, os.environ), say)

    def follow() -> Callable[[float], str]:
        return progress.line

    with live_line.shown(follow):
        yield progress
