"""Nests the events of each thread by their begins and ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.parse.columns import UNKNOWN, HostEvents, Ints

PIECE = 1 << 16  # events nested at once: small enough for the processor's cache


@dataclass(frozen=True)
class Forest:
    """Events of one thread as a forest, n of them, by begin and outer before inner."""

    thread: int
    rows: Ints  # (n,) int32: their numbers in the table
    begin_ns: Ints  # (n,) int64
    end_ns: Ints  # (n,) int64
    parent: Ints  # (n,) int32: place of the innermost event around each, UNKNOWN at the top

    def innermost(self, at_ns: Ints) -> Ints:
        """Places, (m,) int32, of the innermost events around points in time; UNKNOWN where none."""
        place = np.searchsorted(self.begin_ns, at_ns, side="right").astype(np.int32)
        place -= 1
        _climb(place, np.flatnonzero(place != UNKNOWN), at_ns, self.end_ns, self.parent)
        return place

    def outermost(self, place: Ints) -> Ints:
        """Places of the events at the top around those at `place`; UNKNOWN stays."""
        top: Ints = place.copy()
        open_ = np.flatnonzero(top != UNKNOWN)
        while len(open_):
            above = self.parent[top[open_]]
            open_, above = open_[above != UNKNOWN], above[above != UNKNOWN]
            top[open_] = above
        return top

    def self_ns(self) -> Ints:
        """(n,) int64: duration without the events directly inside."""
        self_ns: Ints = self.end_ns - self.begin_ns
        inner = np.flatnonzero(self.parent != UNKNOWN)
        # A float64 holds whole nanoseconds exactly up to 104 days.
        inside = np.bincount(self.parent[inner], weights=self_ns[inner], minlength=len(self_ns))
        self_ns -= inside.astype(np.int64)
        np.maximum(self_ns, 0, out=self_ns)
        return self_ns


def forests(events: HostEvents, rows: Ints | None = None) -> Iterator[Forest]:
    """The forests of all events, or of those numbered `rows`, piece by piece: none reaches into the next."""
    thread = events.thread if rows is None else events.thread[rows]
    present = np.zeros(int(thread.max(initial=0)) + 1, bool)
    present[thread] = True
    for number in np.flatnonzero(present).tolist():
        of_thread: Ints = np.flatnonzero(thread == number).astype(np.int32)
        of_thread = of_thread if rows is None else rows[of_thread].astype(np.int32)
        of_thread = _by_begin(events, of_thread)
        first = 0
        while first < len(of_thread):
            part, begin, end = _piece(events, of_thread, first)
            yield Forest(number, part, begin, end, _parents(begin, end))
            first += len(part)


def innermost(events: HostEvents, rows: Ints | None, thread: Ints, at_ns: Ints) -> Ints:
    """Numbers, (m,) int32, of the innermost of `rows` around points in time; UNKNOWN where none."""
    around = np.full(len(at_ns), UNKNOWN, np.int32)
    for forest in forests(events, rows):
        inside = (at_ns >= forest.begin_ns[0]) & (at_ns < forest.end_ns.max()) & (thread == forest.thread)
        points = np.flatnonzero(inside)
        if len(points):
            place = forest.innermost(at_ns[points])
            around[points] = np.where(place == UNKNOWN, UNKNOWN, forest.rows[place])
    return around


def _climb(place: Ints, open_: Ints, at_ns: Ints, end_ns: Ints, parent: Ints) -> None:
    """Move each place[open_] up to the first event that is not over at its point in time, or to UNKNOWN."""
    while len(open_):  # as often as events are nested
        open_ = open_[end_ns[place[open_]] <= at_ns[open_]]
        place[open_] = parent[place[open_]]
        open_ = open_[place[open_] != UNKNOWN]


def _by_begin(events: HostEvents, rows: Ints) -> Ints:
    """`rows` by begin, and of those that begin together the longest first."""
    begin_ns = events.begin_ns[rows]
    if (begin_ns[1:] < begin_ns[:-1]).any():
        rows = rows[np.argsort(begin_ns, kind="stable")]
        begin_ns = events.begin_ns[rows]
    same = np.flatnonzero(begin_ns[1:] == begin_ns[:-1])
    tied = np.union1d(same, same + 1)
    if len(tied):
        rows[tied] = rows[tied[np.lexsort((-events.duration_ns[rows[tied]], begin_ns[tied]))]]
    return rows


def _piece(events: HostEvents, rows: Ints, first: int) -> tuple[Ints, Ints, Ints]:
    """From `first` on, at least PIECE of `rows` up to where no event is open, with their begins and ends."""
    size = PIECE
    while True:
        size *= 2
        part = rows[first : first + size]
        begin, end = events.begin_ns[part], events.duration_ns[part]
        np.maximum(end, 0, out=end)
        end += begin
        reach = np.maximum.accumulate(end)
        free = np.flatnonzero(reach[PIECE - 1 : -1] <= begin[PIECE:])
        if len(free) or first + size >= len(rows):
            cut = PIECE + int(free[0]) if len(free) and len(part) == size else len(part)
            return part[:cut], begin[:cut], end[:cut]


def _parents(begin_ns: Ints, end_ns: Ints) -> Ints:
    """(n,) int32: the innermost event around each; events in the order of a Forest."""
    depth = _depths(begin_ns, end_ns)
    by_depth = np.argsort(depth, kind="stable").astype(np.int32)  # a radix sort, depths being short
    first = np.searchsorted(depth[by_depth], np.arange(int(depth.max()) + 2, dtype=depth.dtype))
    parent = np.full(len(begin_ns), UNKNOWN, np.int32)
    for level in range(1, len(first) - 1):
        outer = by_depth[first[level - 1] : first[level]]
        inner = by_depth[first[level] : first[level + 1]]
        nearest = outer[np.maximum(np.searchsorted(outer, inner) - 1, 0)]
        around = (nearest < inner) & (end_ns[nearest] > begin_ns[inner])
        parent[inner] = np.where(around, nearest, UNKNOWN)
    _repair(parent, begin_ns, end_ns)
    return parent


def _repair(parent: Ints, begin_ns: Ints, end_ns: Ints) -> None:
    """Find parents that were missed: rounded time stamps let some events end after the one around."""
    reach = np.maximum.accumulate(end_ns)
    lost = np.flatnonzero((parent[1:] == UNKNOWN) & (reach[:-1] > begin_ns[1:])) + 1
    place = (lost - 1).astype(np.int32)
    _climb(place, np.arange(len(lost)), begin_ns[lost], end_ns, parent)
    parent[lost] = place


def _depths(begin_ns: Ints, end_ns: Ints) -> Ints:
    """(n,) int16: how many events that began earlier are not over when one begins."""
    # An event without a duration ends a nanosecond late here, or it would be over before it began.
    ends = np.sort(np.maximum(end_ns, begin_ns + 1))
    depth: Ints = np.arange(len(begin_ns)) - np.searchsorted(ends, begin_ns, side="right")
    np.minimum(depth, np.iinfo(np.int16).max, out=depth)
    return depth.astype(np.int16)
