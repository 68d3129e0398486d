"""The live line of a run, or a few of them: how far, how fast, how much of it is waiting.

The script writes to the same terminal, whenever and whatever it likes. So the lines stand in the last rows,
outside the region that scrolls, and are drawn with the cursor saved and put back: the script's own output,
its progress bars included, goes on above them untouched.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from perfdoctor.render import text

EVERY_S = 1.0
LOOK_S = 0.25  # at the size of the terminal, whose lines are drawn anew where it changes
FIRST_S = 2.0  # a script that ends sooner, or asks for something at once, never sees a line
UNABLE = ("", "dumb", "unknown")  # kinds of terminal that know no cursor movements
FEWEST_ROWS = 5  # that are left to the script; where there are no more, every row is its own

WHOLE = "\x1b7\x1b[r\x1b8"  # the whole terminal scrolls; the cursor stays
BELOW = "\x1b7\x1b[B\r\x1b[J\x1b8"  # clears the rows below the cursor

Lines = Callable[[float, int, int], Sequence[str]]  # after so many seconds, for so many columns and rows


def figures(steps: int, steps_per_s: float | None, waiting_share: float | None, elapsed_s: float) -> str:
    """The live line's words."""
    elapsed = text.duration(round(elapsed_s))
    if not steps:
        return text.joined(["no step yet", elapsed])
    rate = f"{text.figures(steps_per_s)} steps/s" if steps_per_s else ""
    waiting = "" if waiting_share is None else f"waits for data {text.percent(waiting_share)}"
    return text.joined([f"step {steps:,}", rate, waiting, elapsed])


def is_wanted(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Whether a line can be drawn: a terminal that knows cursor movements, and is looked at."""
    with suppress(OSError, ValueError):
        return stream is not None and stream.isatty() and environ.get("TERM", "") not in UNABLE
    return False


Leave = Callable[[threading.Event, float], bool]


def nobody(ended: threading.Event, seconds: float) -> bool:
    """Nobody leaves before the end."""
    return ended.wait(seconds)


@contextmanager
def shown(follow: Callable[[], Callable[[float], str]]) -> Iterator[None]:
    """Keep a live line on stderr, where it is a terminal; `follow()` gives what words elapsed seconds."""

    def lines() -> Lines:
        line = follow()
        return lambda elapsed_s, columns, _: [
            f"\x1b[2m{f'perfdoctor  {line(elapsed_s)}'[: columns - 1]}\x1b[0m"
        ]

    with shown_lines(lines):
        yield


@contextmanager
def shown_lines(
    follow: Callable[[], Lines], pause_s: Callable[[], float] = lambda: EVERY_S, leave: Leave = nobody
) -> Iterator[None]:
    """Keep live lines on stderr, where it is a terminal; `follow()` gives what draws them.

    They are drawn again after `pause_s`, and no more once `leave`, which waits so many seconds, says so.
    """
    if not is_wanted(sys.stderr, os.environ):
        yield
        return
    ended = threading.Event()
    drawer = threading.Thread(
        target=_draw_until, args=(ended, follow, pause_s, leave), name="perfdoctor-live", daemon=True
    )
    drawer.start()
    try:
        yield
    finally:
        ended.set()
        drawer.join()


def _draw_until(
    ended: threading.Event, follow: Callable[[], Lines], pause_s: Callable[[], float], leave: Leave
) -> None:
    if ended.wait(FIRST_S):
        return
    begin_s, lines, rows = time.monotonic() - FIRST_S, follow(), LastRows(sys.stderr.fileno())
    due_s, size = 0.0, rows.size
    try:
        while not leave(ended, LOOK_S):
            if time.monotonic() >= due_s or rows.size != size:
                size = rows.size
                rows.draw(lines(time.monotonic() - begin_s, *size))
                due_s = time.monotonic() + pause_s()
    except OSError:
        return  # the terminal went away
    finally:
        with suppress(OSError):
            rows.give_back()


class LastRows:
    """The terminal's last rows, taken out of the region that scrolls while something stands in them."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._taken = (0, 0, 0)  # how many, and the size of the terminal then

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal, now."""
        columns, rows = os.get_terminal_size(self._terminal)
        return columns, rows

    def draw(self, lines: Sequence[str]) -> None:
        """Put `lines` there, cut at the terminal's width, if that is ours to draw on just now."""
        count, (columns, rows) = len(lines), self.size
        if rows < FEWEST_ROWS + count or not self._in_foreground():
            return
        if (count, columns, rows) != self._taken:
            # Where the terminal has another size now, ours are somewhere below the cursor, and only they are.
            cleared = BELOW if self._taken[0] else ""
            # So many lines down and up first: what stands in the last rows moves out of them, column and all.
            out_of_them = "\x1bD" * count + f"\x1b[{count}A"
            self._write(f"{WHOLE}{cleared}{out_of_them}\x1b7\x1b[1;{rows - count}r\x1b8")
            self._taken = count, columns, rows
        first = rows - count + 1
        drawn = "".join(f"\x1b[{first + place};1H{line}\x1b[K" for place, line in enumerate(lines))
        # Without wrapping: a line for more columns than there are would push the script's own rows up.
        self._write(f"\x1b7\x1b[?7l{drawn}\x1b[?7h\x1b8")

    def give_back(self) -> None:
        """Clear the rows and let the whole terminal scroll again."""
        count, _, rows = self._taken
        if count:
            cleared = "".join(f"\x1b[{row};1H\x1b[2K" for row in range(rows - count + 1, rows + 1))
            self._write(f"\x1b7{cleared}\x1b8{WHOLE}")
            self._taken = 0, 0, 0

    def _in_foreground(self) -> bool:
        return os.tcgetpgrp(self._terminal) == os.getpgrp()

    def _write(self, letters: str) -> None:
        encoding = sys.stderr.encoding or "ascii"
        if "utf" not in encoding.lower():
            letters = letters.translate(text.ASCII)
        os.write(self._terminal, letters.encode(encoding, "replace"))
