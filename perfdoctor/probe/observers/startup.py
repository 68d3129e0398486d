"""What the script does between the import of torch and its first update, by samples from within.

A bare thread looks ten times a second at the one that imported torch, as `stack_sampler` does. It ends with
the first update, and before the process forks: so no fork finds one thread more.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from types import CodeType, FrameType
from typing import Any, Dict, Optional, Tuple

from ...wire.events.startup import StartUpEvent
from .. import patch
from ..observer import Watch, observer
from ..recorder import clock
from ..user_frames import is_users

PERIOD_S = 0.1
MOST_SAMPLES = 6_000  # ten minutes: after that a launcher is more likely than a start
MOST_LINES = 20
END_S = 0.02  # that a fork waits for the thread to end
IMPORTING = ("<frozen importlib._bootstrap>", "_find_and_load")
COMPILERS = (os.path.join("torch", "_dynamo"), os.path.join("torch", "_inductor"))
MODULES = os.path.join("torch", "nn") + os.sep
LOADERS = os.path.join("torch", "utils", "data") + os.sep

_sleep = time.sleep
_current_frames = sys._current_frames

Place = Tuple[CodeType, int, str]  # code, line and kind


class StartUp:
    """The samples of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.pid = os.getpid()
        self.ident = _thread.get_ident()
        self.counts: Dict[Place, int] = {}
        self.samples = 0
        self.delay_s = _delay_s()
        self.begin_ns = self.end_ns = clock()
        self.running = True
        self.written = False
        self._wake = _thread.allocate_lock()
        self._wake.acquire()

    def run(self) -> None:
        """The loop of the sampling thread."""
        try:
            while self.samples < MOST_SAMPLES and not self._wake.acquire(True, PERIOD_S):
                self.sample(_current_frames().get(self.ident))
        except (RuntimeError, ValueError, AttributeError, MemoryError) as error:
            patch.report_trouble("startup", error)
        self.end_ns = clock()
        self.running = False

    def sample(self, frame: Optional[FrameType]) -> None:
        """Count the innermost line of the user's, and what runs below it."""
        self.samples += 1
        kind = "script"
        while frame is not None and not is_users(frame.f_code.co_filename):
            kind = _kind(frame.f_code, kind)
            frame = frame.f_back
        if frame is not None:
            place = frame.f_code, frame.f_lineno or 0, kind
            self.counts[place] = self.counts.get(place, 0) + 1

    def end(self) -> None:
        """End the thread, and wait a moment until it has."""
        if not self.running or os.getpid() != self.pid or not self._wake.locked():
            return
        self._wake.release()
        until_ns = clock() + END_S * 1e9
        while self.running and clock() < until_ns:
            _sleep(END_S / 20)

    def write(self) -> None:
        """Write what was seen, once; the script has begun to train."""
        if self.written or os.getpid() != self.pid:
            return
        self.written = True
        self.end()
        delay_s = _delay_s()
        most = sorted(self.counts.items(), key=lambda item: -item[1])[:MOST_LINES]
        self.watch.write(
            StartUpEvent(
                begin_ns=self.begin_ns,
                end_ns=self.end_ns,
                samples=self.samples,
                delay_s=None if delay_s is None or self.delay_s is None else delay_s - self.delay_s,
                lines=[_described(place, samples) for place, samples in most],
            )
        )


@observer
def startup(watch: Watch) -> None:
    """Sample the thread that imported torch until the first update."""
    start = StartUp(watch)
    os.register_at_fork(before=patch.guarded("startup", start.end))
    watch.on_optimizer("startup", lambda optimizer, number: start.write())
    watch.each_second("startup", start.write)
    _thread.start_new_thread(start.run, ())


def _kind(code: CodeType, kind: str) -> str:
    """What a frame below the user's line tells of it; the outermost that tells decides."""
    file = code.co_filename
    if (file, code.co_name) == IMPORTING:
        return "import"
    if any(compiler in file for compiler in COMPILERS):
        return "compile"
    if LOADERS in file:
        return "batch"
    return "model" if MODULES in file and kind == "script" else kind


def _described(place: Place, samples: int) -> Dict[str, Any]:
    code, line, kind = place
    return {
        "file": os.path.abspath(code.co_filename),
        "line": line,
        "function": code.co_name,
        "kind": kind,
        "samples": samples,
    }


def _delay_s() -> Optional[float]:
    """Seconds that the calling thread was ready and had no core; None where the system does not tell."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
