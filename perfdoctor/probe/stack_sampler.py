"""Stack samples from within, for where a sampler from outside is not permitted.

A sample is what `sys._current_frames()` shows. The sampling thread is a bare one: `threading` does not know
it, so nothing of the user's counts it, waits for it or names it. It takes no lock, and after a fork only
the parent has it.
"""

from __future__ import annotations

import _thread
import atexit
import ctypes
import os
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any

from ..wire.folded_stacks import END, folded, frame_text, header
from . import patch

RATE_HZ = 20.0
FIRST_CHUNK_S = 5.0  # so that a short run has stacks
LONGEST_CHUNK_S = 60.0  # what a SIGKILL can lose
LARGEST_FILE_BYTES = 16 * 1024 * 1024
PR_SET_PTRACER = 0x59616D61  # "Yama"; without that module the call is refused and changes nothing
DEEPEST = 128  # innermost frames kept of a stack

_clock = time.perf_counter  # bound here: the script may replace those in `time`
_sleep = time.sleep
_write = os.write
_current_frames = sys._current_frames

Frames = tuple[tuple[CodeType, int], ...]


class InProcessSampler:
    """Samples the threads of this process until `end`, and appends their folded stacks to a file."""

    def __init__(self, path: str, label: str, thread_ident: int, rate_hz: float) -> None:
        self._path = path
        self._label = label
        self._thread_ident = thread_ident
        self._period_s = 1.0 / rate_hz
        self._pid = os.getpid()
        self._counts: dict[tuple[str, Frames], int] = {}
        self._written_bytes = 0
        self._ended = False

    def run(self) -> None:
        """The loop of the sampling thread."""
        own = _thread.get_ident()
        chunk_s = FIRST_CHUNK_S
        flush_at = _clock() + chunk_s
        try:
            while not self._ended:
                _sleep(self._period_s)
                self.sample(own)
                if _clock() >= flush_at:
                    self.flush()
                    chunk_s = min(chunk_s * 2, LONGEST_CHUNK_S)
                    flush_at = _clock() + chunk_s
        except (OSError, RuntimeError, ValueError, AttributeError, MemoryError) as error:
            patch.report_trouble("stack sampler", error)

    def sample(self, own: int) -> None:
        """Add what every thread but `own` is doing now."""
        counts = self._counts
        for ident, frame in _current_frames().items():
            if ident != own:
                key = (self._name(ident), walk(frame))
                counts[key] = counts.get(key, 0) + 1

    def flush(self) -> None:
        """Append what was counted since the last time."""
        counts, self._counts = self._counts, {}
        lines = [
            folded(label, [_text(code, line) for code, line in frames], count)
            for (label, frames), count in counts.items()
        ]
        if self._written_bytes == 0:
            lines.insert(0, header("in-process", 1.0 / self._period_s))
        lines.append(END)
        data = "".join(lines).encode("utf-8", "backslashreplace")
        if self._written_bytes + len(data) > LARGEST_FILE_BYTES:
            self._ended = True
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._written_bytes += _write(descriptor, data)
        finally:
            os.close(descriptor)

    def end(self) -> None:
        """Stop, and write what is left; in a fork of the process, nothing."""
        if self._ended or os.getpid() != self._pid:
            return
        self._ended = True
        try:
            self.flush()
        except OSError as error:
            patch.report_trouble("stack sampler", error)

    def _name(self, ident: int) -> str:
        if ident == self._thread_ident:
            return self._label
        # threading.enumerate() takes a lock that a fork could catch us with.
        threads: dict[int, Any] = getattr(threading, "_active", {})
        name = str(getattr(threads.get(ident), "name", ident))
        return "thread " + name.replace(";", ":").replace("\n", " ")


def permit(pid: int) -> None:
    """Let the process `pid` and what it starts look into this one, where the system asks for that (Yama).

    Ubuntu lets only ancestors look, and a sampler beside the script is none. A fork does not inherit it.
    """
    try:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux


def walk(frame: FrameType | None) -> Frames:
    """(code, line) of each frame, outermost first."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < DEEPEST:
        found.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    found.reverse()
    return tuple(found)


def _text(code: CodeType, line: int) -> str:
    return frame_text(str(getattr(code, "co_qualname", code.co_name)), code.co_filename, line)


def begin(path: str, thread_ident: int, label: str = "main", rate_hz: float = RATE_HZ) -> InProcessSampler:
    """Start sampling this process into `path`; the thread `thread_ident` is shown as `label`."""
    sampler = InProcessSampler(path, label, thread_ident, rate_hz)
    atexit.register(sampler.end)
    _thread.start_new_thread(sampler.run, ())
    return sampler
