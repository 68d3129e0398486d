"""The live line of a run: how far, how fast, how much of it is waiting.

The script writes to the same terminal, whenever and whatever it likes. So the line stands in the last row,
outside the region that scrolls, and is drawn with the cursor saved and put back: the script's own output, its
progress bars included, goes on above it untouched.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

from perfdoctor.render import text

EVERY_S = 1.0
FIRST_S = 2.0  # a script that ends sooner, or asks for something at once, never sees a line
UNABLE = ("", "dumb", "unknown")  # kinds of terminal that know no cursor movements
FEWEST_ROWS = 6  # below this every row belongs to the script

WHOLE = "\x1b7\x1b[r\x1b8"  # the whole terminal scrolls; the cursor stays


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


@contextmanager
def shown(follow: Callable[[], Callable[[float], str]]) -> Iterator[None]:
    """Keep a live line on stderr, where it is a terminal; `follow()` gives what words elapsed seconds."""
    if not is_wanted(sys.stderr, os.environ):
        yield
        return
    ended = threading.Event()
    drawer = threading.Thread(target=_draw_until, args=(ended, follow), name="perfdoctor-live", daemon=True)
    drawer.start()
    try:
        yield
    finally:
        ended.set()
        drawer.join()


def _draw_until(ended: threading.Event, follow: Callable[[], Callable[[float], str]]) -> None:
    if ended.wait(FIRST_S):
        return
    begin_s, line, row = time.monotonic() - FIRST_S, follow(), LastRow(sys.stderr.fileno())
    try:
        while not ended.is_set():
            row.draw(f"perfdoctor  {line(time.monotonic() - begin_s)}")
            ended.wait(EVERY_S)
    except OSError:
        return  # the terminal went away
    finally:
        with suppress(OSError):
            row.give_back()


class LastRow:
    """The terminal's last row, taken out of the region that scrolls while something stands in it."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._rows = 0  # of the terminal whose last row is taken; 0: none is

    def draw(self, line: str) -> None:
        """Put `line` there, if the terminal is ours to draw on just now."""
        columns, rows = os.get_terminal_size(self._terminal)
        if rows < FEWEST_ROWS or not self._in_foreground():
            return
        if rows != self._rows:
            # One line down and up first: what stands in the last row moves out of it, column and all.
            self._write(f"{WHOLE}\x1bD\x1b[1A\x1b7\x1b[1;{rows - 1}r\x1b8")
            self._rows = rows
        self._write(f"\x1b7\x1b[{rows};1H\x1b[2m{line[: columns - 1]}\x1b[0m\x1b[K\x1b8")

    def give_back(self) -> None:
        """Clear the row and let the whole terminal scroll again."""
        if self._rows:
            self._write(f"\x1b7\x1b[{self._rows};1H\x1b[2K\x1b8{WHOLE}")
            self._rows = 0

    def _in_foreground(self) -> bool:
        return os.tcgetpgrp(self._terminal) == os.getpgrp()

    def _write(self, letters: str) -> None:
        encoding = sys.stderr.encoding or "ascii"
        if "utf" not in encoding.lower():
            letters = letters.translate(text.ASCII)
        os.write(self._terminal, letters.encode(encoding, "replace"))
