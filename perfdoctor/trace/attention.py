"""Attention written out: a softmax between two batched products, whose scores go through memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from perfdoctor.model import Location
from perfdoctor.trace.columns import UNKNOWN, Ints, Trace
from perfdoctor.trace.intervals import NS, Spans
from perfdoctor.trace.operators import details
from perfdoctor.trace.places import line, places
from perfdoctor.trace.results import AttentionUse
from perfdoctor.trace.work import Product, work

PRODUCTS = ("aten::bmm", "aten::baddbmm")
FORWARD, BACKWARD = "aten::_softmax", "aten::_softmax_backward_data"
SUMS = ("count", "between_us", "products_us")


class Attention:
    """Finds it in the marked steps or, without them, anywhere.

    Costs are of the device; where `host` says when operators ran, of the host. Without shapes, the products
    around a softmax are taken to be its scores and its values.
    """

    def __init__(self, trace: Trace, launching: Ints, host: Spans | None) -> None:
        self.trace = trace
        self.host = host
        launched = np.flatnonzero(launching != UNKNOWN)
        self.device_ns = np.bincount(
            launching[launched], weights=trace.device.duration_ns[launched], minlength=len(trace.calls)
        )
        self.threads: dict[int, tuple[Ints, Ints]] = {}  # begins of calls, and what was launched before each

    def all(self, steps: Spans) -> tuple[AttentionUse, ...]:
        """All of one kind added up, costliest first."""
        triples = [
            found
            for found in self._triples(steps)
            if self._is_backward(found[1]) or _fit(self._sizes(found[0]), self._sizes(found[2]))
        ]
        softmax = np.array([triple[1] for triple in triples], np.int64)
        ops = self.trace.ops
        place = places(self.trace, ops.thread[softmax], ops.begin_ns[softmax], softmax, softmax)
        keys = zip(place.function.tolist(), place.stack.tolist(), strict=True)
        kinds: dict[tuple[object, ...], list[AttentionUse]] = defaultdict(list)
        for triple, key in zip(triples, keys, strict=True):
            use = self._use(*triple, line(self.trace, *key))
            kinds[use.backward, use.heads, use.queries, use.keys, use.at].append(use)
        return tuple(sorted(map(_merged, kinds.values()), key=lambda use: -use.between_us))

    def _triples(self, steps: Spans) -> Iterator[tuple[int, int, int, Ints]]:
        """Numbers of each softmax and the products beside it, and of all products that belong to it."""
        ops, names = self.trace.ops, self.trace.names
        kind = np.array(
            [1 if name in PRODUCTS else 2 if name in (FORWARD, BACKWARD) else 0 for name in names]
        )
        rows = np.flatnonzero(kind[ops.name]) if (kind == 2).any() else np.empty(0, np.int64)
        if len(steps):
            rows = rows[steps.within(ops.begin_ns[rows], ops.begin_ns[rows] + 1) > 0]
        rows = rows[np.lexsort((ops.begin_ns[rows], ops.thread[rows]))]
        what, thread = kind[ops.name[rows]], ops.thread[rows]
        fits = (what[:-2] == 1) & (what[1:-1] == 2) & (what[2:] == 1) & (thread[:-2] == thread[2:])
        for place in np.flatnonzero(fits).tolist():
            first, softmax, last = rows[place : place + 3].tolist()
            reach = 2 if self._is_backward(softmax) else 1  # the gradient of a product is two products
            near = slice(max(0, place + 1 - reach), place + 2 + reach)
            yield first, softmax, last, rows[near][(what[near] == 1) & (thread[near] == thread[place])]

    def _use(self, first: int, softmax: int, last: int, products: Ints, at: Location | None) -> AttentionUse:
        ops, backward, thread = (
            self.trace.ops,
            self._is_backward(softmax),
            int(self.trace.ops.thread[softmax]),
        )
        scores = None if backward else self._sizes(first)
        begin, end = (
            ops.begin_ns[products].tolist(),
            (ops.begin_ns[products] + ops.duration_ns[products]).tolist(),
        )
        return AttentionUse(
            backward=backward,
            heads=scores.batch if scores else None,
            queries=scores.m if scores else None,
            keys=scores.n if scores else None,
            at=at,
            count=1,
            between_us=self._cost(
                thread, int(ops.begin_ns[first] + ops.duration_ns[first]), int(ops.begin_ns[last])
            ),
            products_us=sum(self._cost(thread, *ends) for ends in zip(begin, end, strict=True)),
        )

    def _cost(self, thread: int, begin_ns: int, end_ns: int) -> float:
        if self.host is not None:
            return int(self.host.within(begin_ns, end_ns)) / NS
        if thread not in self.threads:
            mine = np.flatnonzero(self.trace.calls.thread == thread)
            mine = mine[np.argsort(self.trace.calls.begin_ns[mine], kind="stable")]
            before = np.concatenate(([0], np.cumsum(self.device_ns[mine]).astype(np.int64)))
            self.threads[thread] = self.trace.calls.begin_ns[mine], before
        begin, before = self.threads[thread]
        first, last = np.searchsorted(begin, (begin_ns, end_ns))
        return int(before[last] - before[first]) / NS

    def _is_backward(self, softmax: int) -> bool:
        return bool(self.trace.names[self.trace.ops.name[softmax]] == BACKWARD)

    def _sizes(self, op: int) -> Product | None:
        row = int(details(self.trace, np.array([op]))[0])
        if row == UNKNOWN or self.trace.details.inputs[row] == UNKNOWN:
            return None
        done = work(
            self.trace.names[self.trace.ops.name[op]], self.trace.inputs[self.trace.details.inputs[row]]
        )
        return done.product if done else None


def _fit(scores: Product | None, values: Product | None) -> bool:
    """Whether [queries, size] x [size, keys] is followed by [queries, keys] x [keys, size], if known."""
    if scores is None or values is None:
        return True
    return (scores.batch, scores.m, scores.n) == (values.batch, values.m, values.k)


def _merged(alike: Sequence[AttentionUse]) -> AttentionUse:
    return replace(alike[0], **{name: sum(getattr(use, name) for use in alike) for name in SUMS})
