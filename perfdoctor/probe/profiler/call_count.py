"""How many functions a step calls, Python's and C's: what a window with Python stacks would have to pay for.

A profile function counts them in the step before such a window, at a twentieth of what recording them costs,
and gives up at a limit: what the run could pay for. It sees the thread that trains, but a window records all
threads of Python: for the others their CPU time says how many calls it may have been.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from typing import Any, Optional

from ...wire.step_rows import DISTURBED
from .. import patch
from ..recorder import Recorder

NAME = "call count"
CALLS_PER_S = 5_000_000  # as fast as small functions call each other: 200 ns each, with what lies between
EVENTS = 2  # of the profile function, for each call: it begins, and ends


class CallCount:
    """Counts the calls of one step at a time, in the thread that trains."""

    def __init__(self) -> None:
        self.is_counting = False
        self.limit = 0  # of calls
        self._events = self._most = 0
        self._others_s = 0.0
        self._profile: Any = None

    def begin(self, recorder: Recorder, limit: int) -> None:
        """Count from now on, up to `limit` calls; not where a profile function is there already."""
        if sys.getprofile() is not None:
            return
        self.limit = limit
        self._events, self._most = 0, EVENTS * limit
        self._others_s = others_cpu_s()
        self._profile = patch.profile_function(NAME, self._count)
        self.is_counting = True
        recorder.hold(True)
        self.disturb(recorder)
        sys.setprofile(self._profile)

    def disturb(self, recorder: Recorder) -> None:
        """The row that is open is not to be timed, if its calls are counted."""
        if self.is_counting:
            recorder.flags |= DISTURBED

    def _count(self, frame: Any, event: str, arg: Any) -> None:
        self._events += 1
        if self._events > self._most:
            sys.setprofile(None)

    def end(self, recorder: Recorder) -> Optional[int]:
        """The calls since `begin`; more than the limit where it was reached. None: they were not counted."""
        if not self.is_counting:
            return None
        is_over = self._events > self._most
        is_ours = sys.getprofile() is self._profile
        if is_ours:
            sys.setprofile(None)
        self.is_counting = False
        recorder.hold(False)
        if not (is_ours or is_over):
            return None  # the script has put one of its own in its place
        calls = self._events / EVENTS + CALLS_PER_S * (others_cpu_s() - self._others_s)
        return int(calls) + 1

    def unpaid(self, calls: Optional[int]) -> Optional[str]:
        """Why a window with stacks would cost more than may be spent, by a step's calls as counted."""
        if calls is None:
            return "the calls of a step could not be counted beforehand"
        if calls > self.limit:
            return f"a step makes more than the {self.limit} calls of functions that may be paid for so far"
        return None


def others_cpu_s() -> float:
    """CPU seconds, until now, of the threads that `threading` knows, without the calling one."""
    known = getattr(sys.modules.get("threading"), "_active", {})  # enumerate() would take a lock
    others = [thread for ident, thread in list(known.items()) if ident != get_ident()]
    return sum(cpu_s(thread.native_id) for thread in others if getattr(thread, "native_id", None))


def cpu_s(native_id: int) -> float:
    """CPU seconds of a thread until now; 0 where that is not known."""
    try:
        with open(f"/proc/self/task/{native_id}/schedstat", "rb") as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0  # it has ended, or the system keeps no such account
