"""Tells whether a signal was for the whole process group: a process that does nothing else hears it, too."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FrameType


class GroupListener:
    """That process, in the group of this one; it ends when this one does, or closes it.

    Raises OSError where there is no room for it.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._seen = bytearray()
        self._heard, told = os.pipe()
        os.set_blocking(self._heard, False)
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
        """Whether it got this signal as well; asked once for each that this process got.

        The handler of another signal may ask at any point of this.
        """
        due_s = time.monotonic() + within_s
        while not self._take(number):
            left_s = max(0.0, due_s - time.monotonic())
            if not select.select([self._heard], [], [], left_s)[0]:
                return False
            try:
                told = os.read(self._heard, 64)
            except BlockingIOError:  # another handler has read it since
                continue
            if not told:  # somebody has killed it
                return False
            self._seen.extend(told)
        return True

    def _take(self, number: int) -> bool:
        """Whether it has told of this signal, which is then used up."""
        try:
            self._seen.remove(number)
        except ValueError:
            return False
        return True

    def forget(self) -> None:
        """Leave out what was heard so far."""
        with suppress(BlockingIOError):
            while os.read(self._heard, 64):
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
