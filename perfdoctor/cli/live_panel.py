"""`perfdoctor run --live`: the view in the last rows of the terminal that the script writes to as well.

The terminal stays the script's, its keyboard included. Only where the script's input is something else are
keys read: then nobody else waits for them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from perfdoctor.own_failures import guarded

if TYPE_CHECKING:
    from pathlib import Path

    from perfdoctor.cli.following import Following
    from perfdoctor.render.progress.keyboard import Keyboard
    from perfdoctor.render.progress.live_line import Lines

LINE_S = 60.0  # between two lines where no view can be drawn
NO_ROWS = "--live: stderr is not a terminal that can redraw: one line a minute instead of the view"
FAILED = "the live view failed, the run goes on: {}"
EVERY_S = 1.0
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
        with live_line.shown_lines(panel.follow, panel.pause_s, panel.leaves):
            yield


class _Panel:
    """The lines of a run, until somebody leaves them or perfdoctor fails at them."""

    def __init__(self, path: Path, keyboard: Keyboard) -> None:
        self._path = path
        self._keyboard = keyboard
        self._following: Following | None = None
        self._spent_s = 0.0
        self._has_failed = False

    def pause_s(self) -> float:
        """How long the last lines stand."""
        return self._following.pause_s(self._spent_s) if self._following is not None else EVERY_S

    def leaves(self, ended: threading.Event, seconds: float) -> bool:
        """Wait so long for the end, or for `q`."""
        leaves = self._keyboard.leaves(ended, seconds) or self._has_failed
        if leaves:
            self._keyboard.give_back()
        return leaves

    def follow(self) -> Lines:
        """What draws the lines."""
        from perfdoctor.cli import output
        from perfdoctor.render.progress.live_view import LiveView

        view = LiveView(output.wants_colour(sys.stderr))
        self._keyboard.take()

        def lines(elapsed_s: float, columns: int, rows: int) -> Sequence[str]:
            began_s = time.thread_time()
            drawn: list[str] = []
            with guarded(self._fail):
                self._following = self._following or _followed(self._path)
                now = self._following.look()
                drawn = view.panel(now, self._following.report, columns - 1, bool(self._keyboard))
            self._spent_s = time.thread_time() - began_s
            return drawn if rows >= len(drawn) + LEFT_TO_SCRIPT else drawn[1:2]

        return lines

    def _fail(self, error: str) -> None:
        from perfdoctor.cli import output

        self._has_failed = True
        output.say(FAILED.format(error))


def _followed(path: Path) -> Following:
    from perfdoctor.cli.following import Following

    return Following(path)


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
        with guarded(lambda error: output.say(FAILED.format(error))):
            tell_until_the_end()

    def tell_until_the_end() -> None:
        from perfdoctor.render.progress import live_view

        following, said_s, told, pause_s = _followed(path), time.monotonic(), None, EVERY_S
        while not ended.wait(pause_s):
            began_s = time.thread_time()
            now = following.look()
            pause_s = following.pause_s(time.thread_time() - began_s)
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
