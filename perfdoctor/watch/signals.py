"""Signals: what reaches perfdoctor is meant for the script, and the script's death is perfdoctor's own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from perfdoctor.watch.group_listener import GroupListener

FROM_KEYBOARD = frozenset({signal.SIGINT, signal.SIGQUIT})  # a terminal sends them to a whole group
PASSED_ON = (
    *FROM_KEYBOARD,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
ENDS = (*FROM_KEYBOARD, signal.SIGTERM, signal.SIGHUP)
# How long a signal may take to reach the listener as well, where it was for the group, as a key's is.
GROUP_S, KEY_S = 0.2, 1.0


class SignalForwarding:
    """While it is open, perfdoctor passes signals on to the script instead of dying of them.

    A signal that was for the group has reached the script by itself; a second one could cost the checkpoint
    that it saves at the first. What the caller ignores (nohup, a background job) stays ignored, for the
    script as well. `on_end` is called before the first signal that ends a program is passed on.
    """

    def __init__(self, on_end: Callable[[], object] = lambda: None) -> None:
        self._on_end = on_end
        self._process: subprocess.Popen[bytes] | None = None
        self.ended_by: int | None = None  # the first signal that came of those that end a program
        self._early: list[int] = []
        self._before: dict[int, Any] = {}
        self._listener: GroupListener | None = None

    def __enter__(self) -> SignalForwarding:
        numbers = [number for number in PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.getsignal(number) for number in numbers}
        try:
            for number in numbers:
                signal.signal(number, self._receive)
            # Once they are ours: what another handler raised would leave the listener behind.
            with suppress(OSError):  # no room for another process: keys alone are known to reach the group
                self._listener = GroupListener(numbers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._listener is not None:
            self._listener.close()

    @property
    def ending(self) -> bool:
        """Whether a signal that ends a program has come."""
        return self.ended_by is not None

    def aim(self, process: subprocess.Popen[bytes]) -> None:
        """Pass signals on to `process`, those first that came before it was there."""
        self._process = process
        if self._listener is not None:
            self._listener.forget()  # what came before the script was there
        for number in self._early:
            _send(process, number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if number in ENDS and not self.ending:
            self.ended_by = number
            self._on_end()
        if self._process is None:
            self._early.append(number)
        elif not self._has_reached(self._process, number):
            _send(self._process, number)

    def _has_reached(self, process: subprocess.Popen[bytes], number: int) -> bool:
        """Whether the script, in our group, got the signal as we did."""
        is_key = number in FROM_KEYBOARD and _in_foreground()
        try:
            if os.getpgid(process.pid) != os.getpgrp():
                return False
        except OSError:
            return True  # it has ended
        if self._listener is None:
            return is_key
        return self._listener.heard(number, KEY_S if is_key else GROUP_S)


class Stopped(KeyboardInterrupt):
    """A signal other than Ctrl-C's came that ends a program."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def number_of(stop: KeyboardInterrupt) -> int:
    """The signal behind it."""
    return stop.number if isinstance(stop, Stopped) else signal.SIGINT


@contextmanager
def stoppable() -> Iterator[None]:
    """Signals that end a program raise Stopped here, as Ctrl-C raises KeyboardInterrupt.

    Those that the caller ignores, or hears itself, stay as they are.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    before = {number: signal.getsignal(number) for number in ENDS if number != signal.SIGINT}
    numbers = [number for number, handler in before.items() if handler == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def mirror(status: int, number: int | None) -> NoReturn:
    """End perfdoctor as the script ended: with its exit status, or by the same signal."""
    if number is None:
        sys.exit(status)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or never there
            stream.flush()
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # the script's own core file is enough
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    sys.exit(status)  # a signal that does not end a process here


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(OSError):  # it has just ended, or belongs to another user now
        process.send_signal(number)


def _in_foreground() -> bool:
    """Whether a key such as Ctrl-C reaches this process group, and so the script, by itself."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
