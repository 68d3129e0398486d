"""Tells whether a signal was for the whole process group: a process that does nothing else hears it, too."""

from __future__ import annotations

import os
import select
import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FrameType


class GroupListener:
    """That process, in the group of this one; it ends when this one does, or closes it.

    Raises OSError where there is no room for it.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._seen: Counter[int] = Counter()
        self._heard, told = os.pipe()
        alive, self._alive = os.pipe()
        # A signal that comes now waits until there is somebody to hear it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        try:
            self._pid = os.fork()
            if not self._pid:
                try:
                    os.close(self._heard)
                    os.close(self._alive)  # else it would keep itself alive
                    _listen(numbers, told, alive, before)
                finally:
                    os._exit(0)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(told)
            os.close(alive)

    def heard(self, number: int, within_s: float) -> bool:
        """Whether it got this signal as well; asked once for each that this process got."""
        due_s = time.monotonic() + within_s
        while not self._seen[number]:
            left_s = max(0.0, due_s - time.monotonic())
            if not select.select([self._heard], [], [], left_s)[0]:
                return False
            told = os.read(self._heard, 64)
            if not told:  # somebody has killed it
                return False
            self._seen.update(told)
        self._seen[number] -= 1
        return True

    def forget(self) -> None:
        """Leave out what was heard so far."""
        while select.select([self._heard], [], [], 0.0)[0] and os.read(self._heard, 64):
            pass
        self._seen.clear()

    def close(self) -> None:
        """End it."""
        with suppress(ProcessLookupError, ChildProcessError):  # somebody has waited for it
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._alive)
        os.close(self._heard)


def _listen(numbers: Sequence[int], told: int, alive: int, mask: Iterable[int]) -> None:
    """Write the number of each signal that comes, until the other end of `alive` is closed."""

    def tell(number: int, frame: FrameType | None) -> None:
        os.write(told, bytes((number,)))

    for number in numbers:
        signal.signal(number, tell)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.read(alive, 1)
