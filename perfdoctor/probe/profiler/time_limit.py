"""Ends the recording of Python's calls in the middle of a step that takes longer than it may.

torch records them by a profile function. Taken away in the thread that trains, it records no more; what is
recorded stays, and the profiler itself is ended at the next phase, as ever. A thread watches the clock. It
asks the interpreter to call us between two instructions of the main thread, which takes no signal from the
script.
"""

from __future__ import annotations

import ctypes
import sys
from _thread import allocate_lock, get_native_id, interrupt_main, start_new_thread
from typing import Any, List

from .. import patch
from .call_count import cpu_s

NAME = "time limit"
LEAST_S = 0.001  # less is not waited for
_kept: List[Any] = []  # what the interpreter was asked to call may be called long after the window is over


class TimeLimit:
    """The limit of one window. Begun and ended in the main thread, which trains."""

    def __init__(self, seconds: float) -> None:
        """Begin, once the profiler has started: it records no thread that comes later."""
        self.is_over = False
        self._recording = sys.getprofile()  # torch's
        self._ended, self._gone = allocate_lock(), allocate_lock()
        self._ended.acquire()
        self._gone.acquire()
        start_new_thread(patch.guarded(NAME, self._wait), (seconds, get_native_id()))

    def _wait(self, seconds: float, main: int) -> None:
        """The watching thread. Only CPU time can be calls: one who waits for a core or a batch makes none."""
        begin_s = cpu_s(main)
        try:
            left_s = max(LEAST_S, seconds)
            while left_s >= LEAST_S and not self._ended.acquire(timeout=left_s):
                left_s = seconds - (cpu_s(main) - begin_s) if begin_s else 0.0
            if left_s < LEAST_S:
                between = _between_instructions(patch.guarded(NAME, self.cut))
                _kept.append(between)
                ctypes.pythonapi.Py_AddPendingCall(between, None)
        finally:
            self._gone.release()

    def cut(self) -> None:
        """Record no more calls, unless the window is over or the script put a profile function of its own."""
        recording, self._recording = self._recording, None
        if recording is not None and sys.getprofile() is recording:
            sys.setprofile(None)
            self.is_over = True

    def end(self) -> None:
        """The window is over, and the thread goes: a fork would see one more than the script has."""
        self._recording = None
        self._ended.release()
        self._gone.acquire()


def _between_instructions(call: Any) -> Any:
    """`call` as a function of C that the interpreter can be asked to call."""

    def called(unused: Any) -> int:
        try:
            call()
        except KeyboardInterrupt:  # it would be lost here, and is the script's
            interrupt_main()
        return 0

    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(called)
