from __future__ import annotations

import io
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

import pytest

from perfdoctor.render.progress import live_line
from tests.support.paths import ROOT
from tests.support.screen import Screen

pytestmark = pytest.mark.process


def test_the_line_says_step_rate_waiting_and_elapsed_time():
    assert live_line.figures(400, 16.4, 0.61, 25.3) == "step 400 · 16.4 steps/s · waits for data 61% · 25 s"


def test_before_the_first_step_the_line_says_so():
    assert live_line.figures(0, None, None, 75.0) == "no step yet · 1:15 min"


class Terminal:
    encoding = "utf-8"

    def isatty(self):
        return True


class Closed(Terminal):
    def isatty(self):
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [
        (Terminal(), {"TERM": "xterm-256color"}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {}, False),
        (Closed(), {"TERM": "xterm"}, False),
        (None, {"TERM": "xterm"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_only_a_terminal_that_knows_cursor_movements_gets_a_line(stream, environ, wanted):
    assert live_line.is_wanted(stream, environ) is wanted


DRAW = """
import os, sys
sys.path.insert(0, {root!r})
from perfdoctor.render.progress.live_line import LastRows
row = LastRows(2)
print("abc", end="", flush=True)
for text in {texts!r}:
    row.draw([text[: row.size[0] - 1]])
row.give_back()
print("def")
"""


def drawn(rows: int, columns: int, *texts: str) -> str:
    """What a program writes to a terminal of this size that draws `texts` and goes on writing."""
    return written(rows, columns, DRAW.format(root=str(ROOT), texts=texts))


def written(rows: int, columns: int, code: str) -> str:
    """What `code` writes to a terminal of this size."""
    controller, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    # In a session of its own, with the terminal as its own: the program is in the foreground.
    take = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); exec(sys.argv[1])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", take, code], stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    seen = b""
    while select.select([controller], [], [], 30)[0]:
        try:
            part = os.read(controller, 4096)
        except OSError:  # the program has ended, and with it the terminal
            break
        if not part:
            break
        seen += part
    process.wait(timeout=30)
    os.close(controller)
    return seen.decode()


@pytest.mark.process
def test_the_line_stands_below_the_region_that_scrolls_and_gives_it_back():
    seen = drawn(24, 80, "step 1", "step 2")
    assert seen.count("\x1b[1;23r") == 1
    assert "\x1b[24;1H" in seen
    assert seen.index("step 1") < seen.index("step 2") < seen.rindex("\x1b[r") < seen.index("def")


@pytest.mark.process
def test_the_cursor_is_where_it_was_after_every_drawing():
    seen = drawn(24, 80, "step 1")
    assert seen.count("\x1b7") == seen.count("\x1b8") == 5
    assert "\n" not in seen[: seen.index("def")]


@pytest.mark.process
def test_a_line_that_is_too_wide_does_not_wrap():
    seen = drawn(24, 80, "step 1")
    assert seen.index("\x1b[?7l") < seen.index("step 1") < seen.index("\x1b[?7h") < seen.index("def")


@pytest.mark.process
def test_the_line_is_cut_at_the_width():
    assert "x" * 39 in drawn(24, 40, "x" * 200)
    assert "x" * 40 not in drawn(24, 40, "x" * 200)


@pytest.mark.process
def test_a_terminal_of_a_few_rows_is_left_to_the_script():
    assert drawn(4, 80, "step 1") == "abcdef\r\n"


PANEL = """
import os, sys, termios, struct
from fcntl import ioctl
sys.path.insert(0, {root!r})
from perfdoctor.render.progress.live_line import LastRows
rows = LastRows(2)
for line in range({before}):
    print("before", line, flush=True)
rows.draw(["one", "two", "three"])
if {resized}:
    print("RESIZED", flush=True)
    ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", *({resized} or ()), 0, 0))
    rows.draw(["four", "five", "six"])
for line in range({after}):
    print("after", line, flush=True)
print("STANDS", flush=True)
rows.give_back()
"""


def on_screen(rows: int, columns: int, before: int, after: int, resized=None) -> tuple[Screen, list[str]]:
    """A terminal of this size at the end of a script with lines below it, and what stood there before."""
    code = PANEL.format(root=str(ROOT), before=before, after=after, resized=resized)
    begun, _, rest = written(rows, columns, code).partition("STANDS\r\n")
    first, is_resized, second = begun.partition("RESIZED\r\n")
    screen = Screen(rows, columns)
    screen.feed(first)
    if is_resized:
        screen.resize(*resized)
        screen.feed(second)
    stood = screen.lines
    screen.feed(rest)
    return screen, stood


@pytest.mark.parametrize("before", [0, 1, 20, 21, 22, 23, 24, 60])
@pytest.mark.parametrize("after", [1, 30])
def test_several_lines_stand_last_and_never_cover_what_the_script_wrote(before, after):
    screen, stood = on_screen(24, 80, before, after)
    assert stood[-3:] == ["one", "two", "three"]
    script = [f"before {line}" for line in range(before)] + [f"after {line}" for line in range(after)]
    assert [line for line in screen.all_lines if line] == script


@pytest.mark.parametrize("before", [3, 30])
@pytest.mark.parametrize("size", [(32, 100), (16, 100), (24, 60)])
def test_after_a_resize_the_lines_stand_in_the_last_rows_and_nowhere_else(before, size):
    screen, stood = on_screen(24, 80, before, 2, size)
    assert stood[-3:] == ["four", "five", "six"]
    script = [f"before {line}" for line in range(before)] + ["after 0", "after 1"]
    assert [line for line in screen.all_lines if line] == script
