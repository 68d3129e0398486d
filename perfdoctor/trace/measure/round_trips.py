"""Finds tensors that leave the device and come back before it is given anything else to do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfdoctor.trace.measure.annotations import ProfilerStep
from perfdoctor.trace.measure.by_thread import ByThread
from perfdoctor.trace.measure.copy_sites import BusCopies
from perfdoctor.trace.measure.device_activity import Activity
from perfdoctor.trace.measure.intervals import NS, Spans, covered
from perfdoctor.trace.parse.columns import UNKNOWN, Ints, Trace
from perfdoctor.trace.results import RoundTrip

SMALL_BYTES = 1024  # a loss or a flag that the host reads is no tensor that is worked on there
LARGER = 2  # times as many bytes may come back as left: indices of float32 values are int64
SHOWN = 3  # operators named
SUMS = ("count", "bytes", "us", "exposed_us", "idle_us", "computing_us")


class RoundTrips:
    """Pairs copies out with copies back: launches that follow each other on one thread, in one step.

    Whatever the host did with the tensor, the device was given nothing else meanwhile. Where it waited for a
    DataLoader in between, what comes is another batch.
    """

    def __init__(self, trace: Trace, copies: BusCopies, ops: ByThread, activity: Activity) -> None:
        self.trace = trace
        self.copies = copies
        self.ops = ops
        self.activity = activity
        self.bytes = trace.device.bytes[copies.event]

    def all(self, launching: Ints, steps: Sequence[ProfilerStep], loader: Spans) -> tuple[RoundTrip, ...]:
        """Those of one kind added up, those with most idle time first.

        `launching` as from `launching_calls`; `loader`: when a batch was waited for.
        """
        edges = np.array([step.begin_ns for step in steps], np.int64)
        kinds: dict[tuple[object, ...], list[tuple[RoundTrip, Counter[str]]]] = defaultdict(list)
        for out, back in self._pairs(launching):
            begin = self.copies.begin_ns[[out, back]]
            step, later = np.searchsorted(edges, begin, side="right").tolist()
            if step == later and not loader.within(*begin.tolist()):
                trip, names = self._trip(out, back)
                kinds[trip.out, trip.back, trip.out_at, trip.back_at, trip.same].append((trip, names))
        return tuple(sorted(map(_sum, kinds.values()), key=lambda trip: -trip.idle_us))

    def _pairs(self, launching: Ints) -> list[tuple[int, int]]:
        """Places of the copies out and back."""
        calls = np.unique(launching[launching != UNKNOWN])
        thread, begin = self.trace.calls.thread[calls], self.trace.calls.begin_ns[calls]
        order = np.lexsort((begin, thread))
        copy = np.full(len(self.trace.calls), UNKNOWN, np.int64)
        copy[self.copies.call] = np.arange(len(self.copies.call))
        out, back = copy[calls[order[:-1]]], copy[calls[order[1:]]]
        same_thread = thread[order[1:]] == thread[order[:-1]]
        both = np.flatnonzero((out != UNKNOWN) & (back != UNKNOWN) & same_thread)
        pairs = zip(out[both].tolist(), back[both].tolist(), strict=True)
        return [pair for pair in pairs if self._returns(*pair)]

    def _returns(self, out: int, back: int) -> bool:
        left, returned = int(self.bytes[out]), int(self.bytes[back])
        ways = self.copies.direction[out], self.copies.direction[back]
        return ways == ("DtoH", "HtoD") and left >= SMALL_BYTES <= returned <= LARGER * left

    def _trip(self, out: int, back: int) -> tuple[RoundTrip, Counter[str]]:
        """One round trip, and the time inside operators of the host by name."""
        both, ops = [out, back], self.trace.ops
        begin, end = int(self.copies.begin_ns[out]), int(self.copies.end_ns[back])
        thread = int(self.trace.calls.thread[self.copies.call[out]])
        inside = self.ops.between(thread, int(self.copies.end_ns[out]), int(self.copies.begin_ns[back]))
        computing = covered(ops, inside)
        names: Counter[str] = Counter()
        for row in inside.tolist():
            names[self.trace.names[ops.name[row]]] += int(ops.duration_ns[row])
        events = self.copies.event[both]
        device = self.trace.device
        hidden_ns = self.activity.kernels.within(device.begin_ns[events], device.ends_ns(events))
        trip = RoundTrip(
            out=self.trace.op_name(self.copies.outer[out]), back=self.trace.op_name(self.copies.outer[back]),
            out_at=self.copies.at[out], back_at=self.copies.at[back],
            same=bool(self.bytes[out] == self.bytes[back]), count=1, bytes=int(self.bytes[out]),
            us=(end - begin) / NS, exposed_us=int((device.duration_ns[events] - hidden_ns).sum()) / NS,
            idle_us=(end - begin - int(self.activity.busy.within(begin, end))) / NS,
            computing_us=computing.total_ns / NS,
        )  # fmt: skip
        return trip, names


def _sum(trips: Sequence[tuple[RoundTrip, Counter[str]]]) -> RoundTrip:
    """One entry for round trips of one kind."""
    sums = {name: sum(getattr(trip, name) for trip, _ in trips) for name in SUMS}
    names: Counter[str] = sum((names for _, names in trips), Counter())
    return replace(trips[0][0], **sums, computing=tuple(name for name, _ in names.most_common(SHOWN)))
