"""Tensors that leave the device and come back before it is given anything else to do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfdoctor.trace.activity import Activity
from perfdoctor.trace.columns import UNKNOWN, Ints, Trace
from perfdoctor.trace.intervals import NS, Spans, union
from perfdoctor.trace.marks import Step
from perfdoctor.trace.order import Order
from perfdoctor.trace.results import Detour
from perfdoctor.trace.sites import BusCopies

SMALL_BYTES = 1024  # a loss or a flag that the host reads is no tensor that is worked on there
LARGER = 2  # times as many bytes may come back as left: indices of float32 values are int64
SHOWN = 3  # operators named
SUMS = ("count", "bytes", "us", "exposed_us", "idle_us", "computing_us")


class Detours:
    """Finds pairs of copies, out and back: launches that follow each other on one thread, in one step.

    Whatever the host did with the tensor, the device was given nothing else meanwhile. Where it waited for a
    DataLoader in between, what comes is another batch.
    """

    def __init__(self, trace: Trace, copies: BusCopies, order: Order, ran: Activity) -> None:
        self.trace = trace
        self.copies = copies
        self.order = order
        self.ran = ran
        self.bytes = trace.device.bytes[copies.event]

    def all(self, launching: Ints, steps: Sequence[Step], loader: Spans) -> tuple[Detour, ...]:
        """Those of the same kind added up, those with most idle time first; `launching` as elsewhere."""
        edges = np.array([step.begin_ns for step in steps], np.int64)
        kinds: dict[tuple[object, ...], list[tuple[Detour, Counter[str]]]] = defaultdict(list)
        for out, back in self._pairs(launching):
            begin = self.copies.begin_ns[[out, back]]
            step, later = np.searchsorted(edges, begin, side="right").tolist()
            if step == later and not loader.within(*begin.tolist()):
                one = self._one(out, back)
                kinds[one[0].out, one[0].back, one[0].out_at, one[0].back_at, one[0].same].append(one)
        return tuple(sorted(map(_merged, kinds.values()), key=lambda detour: -detour.idle_us))

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

    def _one(self, out: int, back: int) -> tuple[Detour, Counter[str]]:
        """One detour, and the microseconds inside operators of the host by name."""
        both, ops = [out, back], self.trace.ops
        begin, end = int(self.copies.begin_ns[out]), int(self.copies.end_ns[back])
        thread = int(self.trace.calls.thread[self.copies.call[out]])
        inside = self.order.between(thread, int(self.copies.end_ns[out]), int(self.copies.begin_ns[back]))
        computing = union(ops.begin_ns[inside], self.order.end(inside))
        names: Counter[str] = Counter()
        for row in inside.tolist():
            names[self.trace.names[ops.name[row]]] += int(ops.duration_ns[row])
        events = self.copies.event[both]
        copied, lasting = self.trace.device.begin_ns[events], self.trace.device.duration_ns[events]
        hidden = self.ran.kernels.within(copied, copied + lasting)
        out_op, back_op = (
            self.trace.names[ops.name[op]] if op != UNKNOWN else None for op in self.copies.outer[both]
        )
        found = Detour(
            out=out_op, back=back_op, out_at=self.copies.at[out], back_at=self.copies.at[back],
            same=bool(self.bytes[out] == self.bytes[back]), count=1, bytes=int(self.bytes[out]),
            us=(end - begin) / NS, exposed_us=int((lasting - hidden).sum()) / NS,
            idle_us=(end - begin - int(self.ran.busy.within(begin, end))) / NS,
            computing_us=computing.total_ns / NS,
        )  # fmt: skip
        return found, names


def _merged(alike: Sequence[tuple[Detour, Counter[str]]]) -> Detour:
    sums = {name: sum(getattr(one, name) for one, _ in alike) for name in SUMS}
    names: Counter[str] = sum((names for _, names in alike), Counter())
    return replace(alike[0][0], **sums, computing=tuple(name for name, _ in names.most_common(SHOWN)))
