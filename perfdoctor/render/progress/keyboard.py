"""The keys of a terminal, for a view that may have them; what they do otherwise is put back."""

from __future__ import annotations

import os
import select
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

QUIT = b"q"


class Keyboard:
    """A terminal that is read key by key while it is taken. `None` has no keys, and only waits."""

    def __init__(self, terminal: int | None) -> None:
        self._terminal = terminal
        self._before: list[int | list[bytes | int]] | None = None

    def __bool__(self) -> bool:
        return self._terminal is not None

    def take(self) -> None:
        """Have keys at once and unseen; those that send signals still do."""
        if self._terminal is not None and self._is_ours():
            self._before = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal, termios.TCSADRAIN)

    def give_back(self) -> None:
        """Let the terminal be as it was."""
        if self._terminal is not None and self._before is not None:
            with suppress(OSError, termios.error):  # it went away
                if self._is_ours():
                    termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)
            self._before = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """While it is open, the keys are ours."""
        self.take()
        try:
            yield
        finally:
            self.give_back()

    def wait(self, seconds: float) -> bool:
        """Wait so long for a key; True once it is `q`, or the terminal is gone. Other keys are dropped."""
        if self._terminal is None or self._before is None:
            time.sleep(seconds)
            return False
        try:
            if not select.select([self._terminal], [], [], seconds)[0]:
                return False
            if not self._is_ours():  # reading would stop us
                time.sleep(seconds)
                return False
            keys = os.read(self._terminal, 1024)
        except OSError:
            return True
        return not keys or QUIT in keys.lower()

    def leaves(self, ended: threading.Event, seconds: float) -> bool:
        """Wait so long for `q`, or for the end."""
        if not self:
            return ended.wait(seconds)
        return self.wait(seconds) or ended.is_set()

    def _is_ours(self) -> bool:
        """Whether we are in the foreground: to whoever is not, a terminal answers by stopping it."""
        assert self._terminal is not None
        return os.tcgetpgrp(self._terminal) == os.getpgrp()
