"""Sets of time as sorted, disjoint intervals of whole nanoseconds. Every length is exact."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.parse.columns import ALL, Flags, Ints, TimedEvents

NS = 1e3  # nanoseconds in a microsecond: time is counted in the first and reported in the second
TimeStamps = Ints | int  # time stamps, ns: one or many
PART = 1 << 15  # rows of a table looked at once, to save memory


@dataclass(frozen=True)
class Spans:
    """n disjoint intervals [begin, end), sorted; two that touch are one."""

    begin: Ints  # (n,) int64
    end: Ints  # (n,) int64

    def __len__(self) -> int:
        return len(self.begin)

    @cached_property
    def _until(self) -> Ints:
        """(n + 1,) nanoseconds covered by the first k intervals."""
        until = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.end - self.begin, out=until[1:])
        return until

    @property
    def total_ns(self) -> int:
        """Nanoseconds covered."""
        return int((self.end - self.begin).sum())

    def before(self, time_ns: TimeStamps) -> Any:
        """Nanoseconds covered before each time stamp; an array for an array."""
        after = np.searchsorted(self.begin, time_ns, side="right")
        last_end = self.end[after - 1] if len(self) else np.int64(0)
        surplus = np.maximum(last_end - time_ns, 0)  # of the interval that the time stamp is in
        return self._until[after] - np.where(after > 0, surplus, 0)

    def within(self, begin_ns: TimeStamps, end_ns: TimeStamps) -> Any:
        """Nanoseconds covered between two time stamps; arrays for arrays."""
        return self.before(end_ns) - self.before(begin_ns)

    def hold(self, times_ns: Ints) -> Flags:
        """Whether each of n time stamps is inside an interval: (n,) bool."""
        edges = np.stack((self.begin, self.end), axis=1).ravel()
        inside = np.empty(len(times_ns), bool)
        for part in parts(0, len(times_ns)):
            inside[part] = np.searchsorted(edges, times_ns[part], side="right") % 2  # behind a begin
        return inside

    def gaps(self) -> Spans:
        """What lies between the intervals."""
        return Spans(self.end[:-1], self.begin[1:])

    def minus(self, other: Spans) -> Spans:
        """What is covered here and not by `other`."""
        edge = np.concatenate((self.begin, self.end, other.begin, other.end))
        step = np.repeat(np.array([1, -1, -2, 2], np.int8), [len(self)] * 2 + [len(other)] * 2)
        order = np.argsort(edge, kind="stable")
        edge, depth = edge[order], np.cumsum(step[order])
        left = np.flatnonzero(depth[:-1] == 1) if len(edge) else np.empty(0, np.intp)
        return union(edge[left], edge[left + 1])


NOTHING = Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def union(begin: Ints, end: Ints) -> Spans:
    """What any of the intervals [begin, end) covers: two (n,) int64 arrays in any order.

    Events without a duration, or with a negative one, cover nothing.
    """
    real = end > begin
    if not real.all():
        begin, end = begin[real], end[real]
    if not len(begin):
        return NOTHING
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(begin[1:] > reach[:-1]) + 1  # where a new interval begins
    first = np.concatenate(([0], first))
    last = np.append(first[1:], len(begin)) - 1
    return Spans(begin[first], reach[last])


def covered(events: TimedEvents, rows: Ints | slice = ALL) -> Spans:
    """The time that events cover, or those numbered `rows`."""
    return union(events.begin_ns[rows], events.ends_ns(rows))


def overlapping(begin: Ints, end: Ints) -> Spans:
    """What two or more of the intervals [begin, end) cover at once: two (n,) int64 arrays in any order."""
    edge = np.concatenate((begin, end))
    step = np.repeat(np.array([1, -1], np.int8), [len(begin), len(end)])
    order = np.argsort(edge, kind="stable")
    edge, depth = edge[order], np.cumsum(step[order], dtype=np.int64)
    shared = np.flatnonzero(depth[:-1] > 1) if len(edge) else np.empty(0, np.intp)
    return union(edge[shared], edge[shared + 1])


def either(one: Spans, other: Spans) -> Spans:
    """The time that one of two sets covers, or both."""
    if not len(one) or not len(other):
        return one if len(one) else other
    return union(np.concatenate((one.begin, other.begin)), np.concatenate((one.end, other.end)))


def parts(first: int, last: int) -> list[slice]:
    """Slices of at most PART from `first` to `last`."""
    return [slice(begin, min(begin + PART, last)) for begin in range(first, last, PART)]
