"""A command of perfdoctor's on a terminal of its own, and what stands on that."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pexpect

from tests.support.paths import ROOT
from tests.support.screen import Screen

STARTER = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from perfdoctor.cli import main; main()"
HIDDEN = ("COLUMNS", "LINES", "NO_COLOR", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PERFDOCTOR_RUN")
DEADLINE_S = 90.0


class Shown:
    """A program on a terminal."""

    def __init__(self, child: pexpect.spawn[str], rows: int, columns: int) -> None:
        self.child = child
        self.screen = Screen(rows, columns)
        self.written = ""

    def read(self, seconds: float = 0.2) -> bool:
        """Take in what it writes; False once it has ended."""
        try:
            text = self.child.read_nonblocking(65536, timeout=seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.written += text
        self.screen.feed(text)
        return True

    @property
    def lines(self) -> list[str]:
        """What stands there: on the alternate screen, where that is shown."""
        return (self.screen.alternate or self.screen).lines

    def until(self, seen: str | Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Wait for a text on the screen."""
        until_s = time.monotonic() + deadline_s
        while not (seen() if callable(seen) else any(seen in line for line in self.lines)):
            goes_on = self.read()
            assert goes_on, f"it ended without {seen!r}:\n" + "\n".join(self.screen.all_lines)
            assert time.monotonic() < until_s, f"no {seen!r} in:\n" + "\n".join(self.lines)

    def end(self, deadline_s: float = DEADLINE_S) -> int | None:
        """Wait for its end; its exit status."""
        until_s = time.monotonic() + deadline_s
        while self.read():
            assert time.monotonic() < until_s, "it goes on:\n" + "\n".join(self.lines)
        self.child.wait()
        return self.child.exitstatus

    def resize(self, rows: int, columns: int) -> None:
        """Give it another size, which the program is told by a signal."""
        self.child.setwinsize(rows, columns)
        self.screen.resize(rows, columns)


@contextmanager
def shown(
    folder: Path, *words: str, rows: int = 24, columns: int = 80, shell: str = "", **environ: str
) -> Iterator[Shown]:
    """`perfdoctor` with these words; `shell` is what a shell adds to the command, as `< /dev/null`."""
    known = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    known |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environ}
    command = [sys.executable, "-c", STARTER, *words]
    if shell:
        command = ["bash", "-c", f'"$@" {shell}', "bash", *command]
    child = pexpect.spawn(
        command[0], command[1:], cwd=str(folder), env=known, dimensions=(rows, columns),
        timeout=DEADLINE_S, encoding="utf-8", codec_errors="replace",
    )  # fmt: skip
    child.delaybeforesend = None
    try:
        yield Shown(child, rows, columns)
    finally:
        with suppress(OSError, pexpect.ExceptionPexpect):
            child.close(force=True)
