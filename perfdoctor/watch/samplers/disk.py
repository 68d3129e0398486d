"""What each process of a run itself has read from and written to disks.

Once a process has waited for a child that ended, the kernel counts what that child had read and written as
its own. The child was sampled while it lived: so much is taken off again, and what it did after its last
sample stays.
"""

from __future__ import annotations

from collections.abc import Iterable

import psutil

UNKNOWN = (None, None)


class DiskBytes:
    """Bytes read and written by process; page-cache hits are not in them."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int, int]] = {}  # parent's pid, read, written: as the kernel counts
        self._ended: dict[int, tuple[int, int]] = {}  # of children that ended, as they were seen last
        self._told: dict[int, tuple[int, int]] = {}

    def of(self, process: psutil.Process) -> tuple[int, int] | tuple[None, None]:
        """(read, written); None where they are not known."""
        if not hasattr(process, "io_counters"):
            return UNKNOWN
        try:
            counters, parent = process.io_counters(), process.ppid()
        except (psutil.Error, NotImplementedError, OSError):
            return UNKNOWN
        pid, read, written = process.pid, counters.read_bytes, counters.write_bytes
        self._seen[pid] = parent, read, written
        of_ended, told = self._ended.get(pid, (0, 0)), self._told.get(pid, (0, 0))
        # an ended child that has not been waited for is not in the counts yet: they never fall
        self._told[pid] = max(told[0], read - of_ended[0]), max(told[1], written - of_ended[1])
        return self._told[pid]

    def keep(self, pids: Iterable[int]) -> None:
        """Forget every other process: it has ended."""
        living = set(pids)
        for pid in self._seen.keys() - living:
            parent, read, written = self._seen.pop(pid)
            self._ended.pop(pid, None)
            self._told.pop(pid, None)
            if parent in living:
                before = self._ended.get(parent, (0, 0))
                self._ended[parent] = before[0] + read, before[1] + written
