"""One py-spy process at a time: start it on a target, read what it counted.

Always `--nonblocking` (the blocking mode stops every thread of the target for each sample and can leave it
stopped), never `--subprocesses` (it scans every process of the host ten times a second: 7 % of a core for
two workers) and never `--native`.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import orjson
import psutil

from perfdoctor.model.dataclass import dataclass
from perfdoctor.wire.folded_stacks import short

LOOK_S = 10.0  # for one look at some processes; half a second does where cores are free
END_GRACE_S = 2.0  # how long py-spy may take to write out after an interrupt
PR_SET_PDEATHSIG = 1
_THREAD = re.compile(r"thread \((0x[0-9A-Fa-f]+|\d+)\)(?:: (.*))?")


@dataclass(frozen=True)
class SampledStack:
    """One folded stack as py-spy prints it: the thread's system id and name, frames from the outermost in."""

    thread_id: int
    thread_name: str
    frames: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class RecordingEnd:
    """How a recording ended; `trouble` is py-spy's own words where it failed."""

    stacks: tuple[SampledStack, ...]
    trouble: str | None


def executable() -> str | None:
    """The py-spy that came with perfdoctor, else the one on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


class Recording:
    """py-spy counting the stacks of one process for `seconds`, or until it is interrupted or the target ends.

    The counts go to a file without a name: the raw output is never in the run directory, and nothing is left
    behind whoever dies first. py-spy gets its own session, so that Ctrl-C and signals to the script's group
    do not reach it, and ends when this process does.
    """

    def __init__(self, program: str, pid: int, rate_hz: int, seconds: float) -> None:
        self.pid = pid
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `outcome`
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._last_cpu_s = 0.0
        duration = max(1, round(seconds))
        options = ["--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "raw"]
        target = ["--pid", str(pid), "--rate", str(rate_hz), "--duration", str(duration)]
        descriptor = self._output.fileno()
        self._process = subprocess.Popen(
            [program, "record", *options, *target, "--output", f"/dev/fd/{descriptor}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._words,
            pass_fds=[descriptor],
            start_new_session=True,
            preexec_fn=_die_with_parent if _prctl else None,
        )

    def running(self) -> bool:
        """Whether it is still counting."""
        return self._process.poll() is None

    def cpu_s(self) -> float:
        """CPU seconds py-spy has used, as last seen while it ran."""
        try:
            times = psutil.Process(self._process.pid).cpu_times()
            self._last_cpu_s = max(self._last_cpu_s, times.user + times.system)
        except psutil.Error:
            pass  # it has ended
        return self._last_cpu_s

    def interrupt(self) -> None:
        """Ask it to write what it has and end."""
        if self.running():
            self._process.send_signal(signal.SIGINT)

    def outcome(self) -> RecordingEnd:
        """What it counted; waits a moment for it to end, then ends it."""
        try:
            status = self._process.wait(END_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        with self._output, self._words:
            self._output.seek(0)
            stacks = tuple(parse(self._output.read().decode("utf-8", "backslashreplace")))
            self._words.seek(0)
            words = self._words.read(4096).decode("utf-8", "replace").strip()
        trouble = None if status == 0 else f"py-spy ended with {status}: {_first_line(words)}"
        return RecordingEnd(stacks, trouble)


def dump(program: str, pids: Sequence[int]) -> dict[int, tuple[SampledStack, ...]]:
    """One look at all threads of each process, at the same time; where it is refused, there is none."""
    words = ("dump", "--nonblocking", "--json", "--full-filenames", "--pid")
    looks = {
        pid: subprocess.Popen(
            [program, *words, str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent if _prctl else None,
        )
        for pid in pids
    }
    end_s = time.monotonic() + LOOK_S
    stacks = {}
    for pid, process in looks.items():
        try:
            output, _ = process.communicate(timeout=max(0.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        with suppress(ValueError, KeyError, TypeError):  # a version that writes it in another way
            if process.returncode == 0:
                stacks[pid] = tuple(parse_dump(output))
    return stacks


def parse_dump(text: bytes) -> Iterator[SampledStack]:
    """The threads of `py-spy dump --json`, each seen once. Raises ValueError where it is none."""
    for thread in orjson.loads(text):
        frames = (
            f"{frame['name']} ({frame['filename']}:{frame['line']})" for frame in reversed(thread["frames"])
        )
        shortened = tuple(_shortened(frame) for frame in frames)
        yield SampledStack(
            int(thread.get("os_thread_id") or 0), thread.get("thread_name") or "", shortened, 1
        )


def parse(text: str) -> Iterator[SampledStack]:
    """The lines of `py-spy record --format raw --threads`; others are left out."""
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        head, *frames = stack.split(";")
        thread = _THREAD.fullmatch(head)
        if thread and frames and count.isdigit():
            shortened = tuple(_shortened(frame) for frame in frames)
            yield SampledStack(int(thread[1], 0), thread[2] or "", shortened, int(count))


def _shortened(frame: str) -> str:
    function, separator, place = frame.rpartition(" (")
    # Interned: the same frames come back in every stack and chunk.
    return sys.intern(f"{short(function)}{separator}{place}" if separator else frame)


def _first_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip() and not line.startswith("py-spy>")]
    return lines[0][:200] if lines else "no reason given"


def _load_prctl() -> Any | None:
    try:
        return ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None  # not Linux: py-spy ends by its duration at the latest


_prctl = _load_prctl()


def _die_with_parent() -> None:
    """Runs in the child between fork and exec: only a call that is bound already."""
    if _prctl:
        _prctl(PR_SET_PDEATHSIG, signal.SIGINT)
