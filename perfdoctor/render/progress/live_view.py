"""The live view: lines for a terminal of so many columns and rows, and the full screen that they stand on."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from rich.cells import cell_len

from perfdoctor.model.live import LiveNow
from perfdoctor.model.report import Report
from perfdoctor.render import page as blocks
from perfdoctor.render import terminal, text
from perfdoctor.render.page import Block, Section
from perfdoctor.render.pages import live
from perfdoctor.render.progress.keyboard import Keyboard

WIDE = 160  # columns from which two halves stand side by side
TALL = 40  # rows from which findings have all their lines
GAP = 2
USUAL = 80, 24
STYLE = re.compile(r"\x1b\[[0-9;]*m")
LEAVES = "q leaves this view, the run goes on"
LEAVES_BY_CTRL_C = "Ctrl-C leaves this view, the run goes on"
LOOK_S = 0.25  # at the size of the terminal

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # the alternate screen, no cursor, lines that end at the edge
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"


class LiveView:
    """Draws the view again and again; what is concluded only where that has changed."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour
        self._report: Report | None = None
        self._concluded: dict[tuple[bool, int, bool], list[str]] = {}  # of that report

    def lines(self, now: LiveNow, report: Report | None, size: tuple[int, int], hint: str) -> list[str]:
        """At most so many lines as the terminal has rows, the last of which says what to type."""
        columns, rows = size
        figures = self._figures(now, columns)
        drawn: list[str] = []
        for full in (True, False) if rows >= TALL else (False,):
            drawn = [*self._arranged(*figures, self._conclusions(now, report, columns, full), columns)]
            if len(drawn) < rows:
                break
        drawn = _closer(drawn, len(drawn) - rows + 1)
        more = len(drawn) - rows + 1
        told = hint if more <= 0 else f"{hint} · {text.count(more, 'more line')} in a taller window"
        shown = drawn[: rows - 1]
        room = [""] * (rows - 1 - len(shown))
        return [*shown, *room, _quietly(f"  {told}"[: columns - 1], self._colour)]

    def whole(self, now: LiveNow, report: Report | None, columns: int) -> list[str]:
        """The view without a bound on its length."""
        concluded = self._conclusions(now, report, columns, full=True)
        return [*self._arranged(*self._figures(now, columns), concluded, columns)]

    def panel(self, now: LiveNow, report: Report | None, columns: int, has_keys: bool) -> list[str]:
        """The view in a few lines, with a border above them."""
        left, right = live.panel(now, report, LEAVES if has_keys else "")
        if columns >= WIDE:
            half = _half(columns)
            title, *rest = _drawn([left], half, self._colour)
            body = [title, *_beside(rest, _drawn([right], half, self._colour), half)]
        else:
            body = _drawn([[*left, *right]], columns, self._colour)
        return [_quietly("▁" * columns, self._colour), *body]

    def _figures(self, now: LiveNow, columns: int) -> tuple[list[str], list[str]]:
        """The heading, and what the run does now."""
        half = _half(columns)
        return _drawn([live.title(now)], half, self._colour), _drawn(live.figures(now), half, self._colour)

    def _conclusions(self, now: LiveNow, report: Report | None, columns: int, full: bool) -> list[str]:
        if report is not self._report:
            self._report, self._concluded = report, {}
        of = now.leading is not None and not now.state.is_over, columns, full
        if of not in self._concluded:
            sections = list(live.verdict(now, report, full))
            self._concluded[of] = _drawn(sections, _half(columns), self._colour) if sections else []
        return self._concluded[of]

    def _arranged(
        self, title: Sequence[str], figures: Sequence[str], concluded: Sequence[str], columns: int
    ) -> Iterator[str]:
        """Side by side where there is room, else what is concluded first."""
        yield from title
        if columns >= WIDE:
            yield from ["", *_beside(figures, concluded, _half(columns))]
        else:
            yield from ["", *concluded] if concluded else []
            yield from ["", *figures]


def sentence(now: LiveNow, report: Report | None) -> str:
    """The view in one line of a log."""
    return text.escape_control(live.sentence(now, report))


def _half(columns: int) -> int:
    """How wide what stands beside something else may be; all of it where nothing does."""
    return (columns - GAP) // 2 if columns >= WIDE else columns


def _drawn(sections: Iterable[Section | list[Block]], columns: int, colour: bool) -> list[str]:
    """The lines of some sections, without room above and below."""
    return terminal.draw(blocks.page(sections), columns, colour).strip("\n").split("\n")


def _beside(left: Sequence[str], right: Sequence[str], half: int) -> Iterator[str]:
    height = max(len(left), len(right))
    for one, other in zip(_filled(left, height), _filled(right, height), strict=True):
        room = " " * (half + GAP - cell_len(STYLE.sub("", one)))
        yield f"{one}{room}{other}" if other else one


def _filled(some: Sequence[str], height: int) -> list[str]:
    return [*some, *[""] * (height - len(some))]


def _closer(drawn: Sequence[str], fewer: int) -> list[str]:
    """The lines with so many empty ones fewer, the last ones first."""
    empty = [place for place, line in enumerate(drawn) if not line]
    dropped = set(empty[-fewer:]) if fewer > 0 else set()
    return [line for place, line in enumerate(drawn) if place not in dropped]


def _quietly(line: str, colour: bool) -> str:
    return f"\x1b[2m{line}\x1b[0m" if colour else line


class FullScreen:
    """A terminal's alternate screen and its keys; left as they were found."""

    def __init__(self, terminal: int, keyboard: Keyboard, encoding: str) -> None:
        self._terminal = terminal
        self._encoding = encoding
        self._keyboard = keyboard

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While it is open, the screen is ours; Ctrl-Z gives it back until the view goes on."""

        def suspend(number: int, frame: FrameType | None) -> None:
            self._give_back()
            os.kill(os.getpid(), signal.SIGSTOP)  # here we wait for `fg`
            self._take()

        before = signal.signal(signal.SIGTSTP, suspend)
        try:
            self._take()
            yield
        finally:
            self._give_back()
            signal.signal(signal.SIGTSTP, before)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows, now; a terminal that does not tell them has the usual ones."""
        with suppress(OSError):  # the terminal went away
            columns, rows = os.get_terminal_size(self._terminal)
            return columns or USUAL[0], rows or USUAL[1]
        return USUAL

    def draw(self, view: Sequence[str]) -> None:
        """Put these lines in place of what stands there, in one write, so that nothing flickers."""
        letters = "\x1b[H" + "\x1b[K\r\n".join(view) + "\x1b[K\x1b[J"
        if "utf" not in self._encoding.lower():
            letters = letters.translate(text.ASCII)
        with suppress(OSError):  # the terminal went away: the keyboard, or a signal, says so
            self._write(letters)

    def _take(self) -> None:
        self._keyboard.take()
        self._write(ENTER)

    def _give_back(self) -> None:
        with suppress(OSError):  # the terminal went away
            self._write(LEAVE)
        self._keyboard.give_back()

    def _write(self, letters: str) -> None:
        data = letters.encode(self._encoding, "replace")
        while data:
            data = data[os.write(self._terminal, data) :]
