"""Events of each thread by begin, sorted when first asked for."""

from __future__ import annotations

import numpy as np

from perfdoctor.trace.parse.columns import HostEvents, Ints


class ByThread:
    """Looks up events of one thread around points in time, of all events or of those numbered `rows`."""

    def __init__(self, events: HostEvents, rows: Ints | None = None) -> None:
        self.events = events
        self.rows = rows
        self._threads: dict[int, tuple[Ints, Ints]] = {}

    def of(self, thread: int) -> tuple[Ints, Ints]:
        """Numbers and begins of a thread's events."""
        if thread not in self._threads:
            if self.rows is None:
                rows = np.flatnonzero(self.events.thread == thread).astype(np.int32)
            else:
                rows = self.rows[self.events.thread[self.rows] == thread]
            begin = self.events.begin_ns[rows]
            if (begin[1:] < begin[:-1]).any():
                rows = rows[np.argsort(begin, kind="stable")]
                begin = self.events.begin_ns[rows]
            self._threads[thread] = rows, begin
        return self._threads[thread]

    def before(self, thread: int, at_ns: int, most: int) -> Ints:
        """Numbers of those that are over at a point in time, of the last `most` that had begun."""
        rows, begin = self.of(thread)
        last = int(np.searchsorted(begin, at_ns))
        near = rows[max(0, last - most) : last]
        over: Ints = near[self.events.ends_ns(near) <= at_ns]
        return over

    def between(self, thread: int, begin_ns: int, end_ns: int) -> Ints:
        """Numbers of those that begin and end between two points in time."""
        rows, begin = self.of(thread)
        first, last = np.searchsorted(begin, (begin_ns, end_ns)).tolist()
        inside = rows[first:last]
        over: Ints = inside[self.events.ends_ns(inside) <= end_ns]
        return over
