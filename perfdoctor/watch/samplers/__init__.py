"""The samplers: what perfdoctor watches from its own process while the script runs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfdoctor.own_failures import guarded
from perfdoctor.runs.hangs import HungRank
from perfdoctor.watch.samplers import devices, pyspy
from perfdoctor.watch.samplers.hang_detector import HangDetector
from perfdoctor.watch.samplers.host import HostSampler, usable_cores
from perfdoctor.watch.samplers.processes import ProcessTree
from perfdoctor.watch.samplers.progress import ProgressReader, RunProgress, latest
from perfdoctor.watch.samplers.rank_exits import RankExits
from perfdoctor.watch.samplers.stacks import StackSampler
from perfdoctor.wire.names import PROBE_LOG

__all__ = ["ProgressReader", "RunProgress", "RunningSamplers", "latest", "start", "usable_cores"]

Tell = Callable[[str], None]
Others = Callable[[], Iterable[HungRank]]

TICK_S = 1.0
STOP_GRACE_S = 5.0  # for py-spy to write out; the caller is not held up longer
GPU_GRACE_S = 1.0  # for the driver to answer a last question


class RunningSamplers:
    """The samplers of one run, at work until `stop`."""

    def __init__(
        self, run: Path, pid: int, options: Mapping[str, Any], tell: Tell, others: Others | None
    ) -> None:
        self._run = run
        self._tree = ProcessTree(run, pid)
        self._ends = RankExits(run, self._tree)
        look = _look if options.get("stacks", True) else _no_look
        self._hangs = HangDetector(run, self._tree, look, tell, others=others)
        self._stopping = threading.Event()
        self._off: set[str] = set()
        self._stacks = self._stack_sampler() if options.get("stacks", True) else None
        self._host = HostSampler(run, self._tree, self._stacks.cpu_s if self._stacks else lambda: 0.0)
        self._gpu_due = threading.Event()
        self._gpu_thread = threading.Thread(target=self._sample_gpus, name="perfdoctor gpu", daemon=True)
        self._thread = threading.Thread(target=self._loop, name="perfdoctor samplers", daemon=True)
        self._gpu_thread.start()
        self._thread.start()

    def stop(self) -> None:
        """Keep what the stack samplers have and end; never raises, returns within a few seconds."""
        self._stopping.set()
        self._gpu_due.set()
        self._thread.join(STOP_GRACE_S)
        self._gpu_thread.join(GPU_GRACE_S)

    def _stack_sampler(self) -> StackSampler:
        program = pyspy.executable()

        def begin(pid: int, rate_hz: int, seconds: float) -> pyspy.Recording:
            return pyspy.Recording(program or "", pid, rate_hz, seconds)

        return StackSampler(self._run, begin if program else None, lambda words: _log(self._run, words))

    def _loop(self) -> None:
        self._tick()
        while not self._stopping.wait(TICK_S):
            self._tick()
        self._guard("ends", self._ends.close)
        if self._stacks is not None:
            self._guard("stacks", self._stacks.stop)

    def _tick(self) -> None:
        now_s = time.monotonic()
        self._guard("ends", lambda: self._ends.tick(now_s))
        self._guard("host", lambda: self._host_tick(now_s))
        if self._stacks is not None:
            stacks = self._stacks
            self._guard("stacks", lambda: stacks.tick(now_s, self._tree.look(now_s)))
        self._guard("hangs", lambda: self._hangs.tick(now_s))

    def _host_tick(self, now_s: float) -> None:
        if self._host.tick(now_s):
            self._gpu_due.set()

    def _sample_gpus(self) -> None:
        """Sample the devices as often as the host, in a thread of its own: a driver may never answer."""
        self._guard("gpu", self._gpus)

    def _gpus(self) -> None:
        sampler = devices.opened(self._run, os.environ)
        if sampler is None:
            return
        while self._gpu_due.wait() and not self._stopping.is_set():
            self._gpu_due.clear()
            sampler.tick()
        sampler.close()

    def _guard(self, name: str, action: Callable[[], object]) -> None:
        """Run one sampler; what goes wrong turns it off for the rest of the run."""
        if name in self._off:
            return

        def turn_off(error: str) -> None:
            self._off.add(name)
            _log(self._run, f"{name} sampler turned off: {error}")

        with guarded(turn_off):
            action()


def start(
    path: Path,
    pid: int,
    options: Mapping[str, Any],
    tell: Tell = lambda sentence: None,
    others: Others | None = None,
) -> RunningSamplers:
    """Sample the processes below `pid` into the run directory at `path` from a background thread.

    `options` are the run's (config.json); `stacks: false` leaves the stack samples out. `tell` says a line
    where no step ends any more, with what `others` saw: the watches of the other tasks of the same job.
    """
    return RunningSamplers(path, pid, options, tell, others)


def _look(pids: Sequence[int]) -> dict[int, tuple[pyspy.SampledStack, ...]]:
    program = pyspy.executable()
    if program is None:
        return {}
    stacks = pyspy.dump(program, pids)
    missed = [pid for pid in pids if pid not in stacks]  # a bad moment, perhaps
    return stacks | pyspy.dump(program, missed)


def _no_look(pids: Sequence[int]) -> dict[int, tuple[pyspy.SampledStack, ...]]:
    return {}


def _log(run: Path, words: str) -> None:
    line = f"{words}\n".encode("utf-8", "backslashreplace")
    try:
        descriptor = os.open(run / PROBE_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            file.write(line)
    except OSError as error:
        if not run.is_dir():
            return  # the user removed the run directory; there is nobody to tell
        sys.stderr.write(f"perfdoctor: cannot write to {run}: {error.strerror}\n")
