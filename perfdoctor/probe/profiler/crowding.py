"""How crowded the cores are: by what factor the thread that trains takes longer than it computes.

The system counts for each thread how long it had a core and how long it waited for one. What a window costs
is told by its own work, times how crowded the cores are when it is to open.
"""

from __future__ import annotations

from typing import NamedTuple

MOST = 20.0  # a moment in which the thread got hardly any time tells little
ENOUGH_NS = 2_000_000  # on a core, that tell something


class CoreTime(NamedTuple):
    """Nanoseconds of the calling thread until now; nothing where the system keeps no account."""

    running_ns: int
    waiting_ns: int


def core_time() -> CoreTime:
    """The account of the calling thread."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            running, waiting = file.read().split()[:2]
            return CoreTime(int(running), int(waiting))
    except (OSError, ValueError):
        return CoreTime(0, 0)


def crowding(since: CoreTime, now: CoreTime) -> float:
    """The factor between two readings; 1 on free cores."""
    running_ns = now.running_ns - since.running_ns
    if running_ns < ENOUGH_NS:
        return 1.0
    return min(MOST, 1.0 + max(0, now.waiting_ns - since.waiting_ns) / running_ns)
