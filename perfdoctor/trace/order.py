"""Operators of each thread by begin, sorted when first asked for."""

from __future__ import annotations

import numpy as np

from perfdoctor.trace.columns import HostEvents, Ints


class Order:
    """Looks up the operators of one thread around points in time."""

    def __init__(self, ops: HostEvents) -> None:
        self.ops = ops
        self._threads: dict[int, tuple[Ints, Ints]] = {}

    def before(self, thread: int, at_ns: int, most: int) -> Ints:
        """Numbers of those that are over at a point in time, of the last `most` that had begun."""
        rows, begin = self._of(thread)
        last = int(np.searchsorted(begin, at_ns))
        near = rows[max(0, last - most) : last]
        over: Ints = near[self.end(near) <= at_ns]
        return over

    def between(self, thread: int, begin_ns: int, end_ns: int) -> Ints:
        """Numbers of those that begin and end between two points in time."""
        rows, begin = self._of(thread)
        first, last = np.searchsorted(begin, (begin_ns, end_ns)).tolist()
        inside = rows[first:last]
        over: Ints = inside[self.end(inside) <= end_ns]
        return over

    def end(self, rows: Ints) -> Ints:
        """When operators end, ns."""
        end: Ints = self.ops.begin_ns[rows] + self.ops.duration_ns[rows]
        return end

    def _of(self, thread: int) -> tuple[Ints, Ints]:
        """Numbers and begins of a thread's operators."""
        if thread not in self._threads:
            mine = np.flatnonzero(self.ops.thread == thread)
            mine = mine[np.argsort(self.ops.begin_ns[mine], kind="stable")]
            self._threads[thread] = mine, self.ops.begin_ns[mine]
        return self._threads[thread]
