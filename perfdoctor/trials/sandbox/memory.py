"""How much memory an execution takes, its processes together, looked at once a second; and what is free."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil

from perfdoctor.watch.samplers import cgroup, devices
from perfdoctor.watch.samplers.host import read_maps

INTERVAL_S = 1.0  # reading smaps_rollup walks a process's page tables: rare enough not to be felt


class PeakMemory:
    """The most memory that a command and all below it took at once, in bytes."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, path: Path, pid: int, options: Mapping[str, Any]) -> PeakMemory:
        """Begin to look, as the sampler of a launch."""
        self._thread = threading.Thread(target=self._run, args=(pid,), name="perfdoctor-memory", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, pid: int) -> None:
        while not self._over.wait(INTERVAL_S):
            bytes_now = taken_bytes(pid)
            if bytes_now is not None:
                self.bytes = max(self.bytes or 0, bytes_now)


def taken_bytes(pid: int) -> int | None:
    """What the process `pid` and all below it take now, each page once."""
    taken = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            taken += read_maps(Path(f"/proc/{member.pid}/smaps_rollup")).pss or 0
    return taken or None


def free_bytes() -> int:
    """What may still be taken here: of the machine, or of the control group with the least left."""
    available, left = psutil.virtual_memory().available, cgroup.memory_left_bytes()
    return int(available if left is None else min(available, left))


def free_device_bytes() -> int | None:
    """What may still be taken of the device with the least left, of those that a command can see.

    None where no device tells. Which of them a command uses is not known from outside.
    """
    sampler = devices.opened(Path(), os.environ)
    if sampler is None:
        return None
    with closing(sampler):
        told = [(line["memory_total_bytes"], line["memory_used_bytes"]) for line in sampler.lines()]
    left = [total - used for total, used in told if total is not None and used is not None]
    return min(left, default=None)
