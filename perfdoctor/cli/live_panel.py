"""`perfdoctor run --live`: the view in the last rows of the terminal that the script writes to as well.

The terminal stays the script's, its keyboard included. Only where the script's input is something else are
keys read: then nobody else waits for them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from perfdoctor.render.progress.keyboard import Keyboard
    from perfdoctor.render.progress.live_line import Lines

LINE_S = 60.0  # between two lines where no view can be drawn
NO_ROWS = "--live: stderr is no terminal that a view could be drawn on: a line a minute instead"
LEFT_TO_SCRIPT = 12  # rows; in a lower terminal the view is a single line


@contextmanager
def watch(path: Path, process: Any) -> Iterator[None]:
    """Show the run at `path` while the command runs."""
    from perfdoctor.render.progress import live_line

    if not live_line.is_wanted(sys.stderr, os.environ):
        with _lines(path):
            yield
        return
    with _spare_keyboard() as keyboard:
        panel = _Panel(path, keyboard)
        with live_line.shown_lines(panel.follow, panel.pause_s, keyboard.leaves):
            yield


class _Panel:
    """The lines of a run."""

    def __init__(self, path: Path, keyboard: Keyboard) -> None:
        self._path = path
        self._keyboard = keyboard
        self._pause_s: Callable[[float], float] = lambda spent_s: 1.0
        self._spent_s = 0.0

    def pause_s(self) -> float:
        """How long the last lines stand."""
        return self._pause_s(self._spent_s)

    def follow(self) -> Lines:
        """What draws the lines."""
        from perfdoctor.cli import output
        from perfdoctor.cli.following import Following
        from perfdoctor.render.progress.live_view import LiveView

        following = Following(self._path)
        view = LiveView(output.wants_colour(sys.stderr))
        self._pause_s = following.pause_s
        self._keyboard.take()

        def lines(elapsed_s: float, columns: int, rows: int) -> Sequence[str]:
            began_s = time.thread_time()
            now = following.look()
            drawn = view.panel(now, following.report, columns - 1, bool(self._keyboard))
            self._spent_s = time.thread_time() - began_s
            return drawn if rows >= len(drawn) + LEFT_TO_SCRIPT else drawn[1:2]

        return lines


@contextmanager
def _spare_keyboard() -> Iterator[Keyboard]:
    """The terminal's keyboard, where the script's input is something else."""
    from perfdoctor.render.progress.keyboard import Keyboard

    terminal = None
    if sys.stdin is None or not sys.stdin.isatty():
        with suppress(OSError):  # no terminal is ours
            terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    keyboard = Keyboard(terminal)
    try:
        yield keyboard
    finally:
        keyboard.give_back()
        if terminal is not None:
            os.close(terminal)


@contextmanager
def _lines(path: Path) -> Iterator[None]:
    """A line on stderr now and then."""
    from perfdoctor.cli import output

    ended = threading.Event()

    def tell() -> None:
        from perfdoctor.cli.following import Following
        from perfdoctor.render.progress import live_view

        following, said_s, told = Following(path), time.monotonic(), None
        while not ended.wait(1.0):
            now = following.look()
            report = following.report
            verdict = report.diagnosis.verdict if report is not None else None
            if verdict is not told or time.monotonic() - said_s >= LINE_S:
                said_s, told = time.monotonic(), verdict
                output.say(live_view.sentence(now, report))

    output.say(NO_ROWS)
    teller = threading.Thread(target=tell, name="perfdoctor-live", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
