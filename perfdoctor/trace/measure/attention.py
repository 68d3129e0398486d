"""Finds attention written out: a softmax between two batched products, whose scores go through memory.

Where torch's own scaled_dot_product_attention computes so, because no fused kernel of it fits (on a CPU any
dropout), the script has nothing written out, and nothing is found.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.by_thread import ByThread
from perfdoctor.trace.measure.flops import Product, work
from perfdoctor.trace.measure.intervals import NS, Spans
from perfdoctor.trace.measure.operators import recorded_inputs
from perfdoctor.trace.measure.source_places import places
from perfdoctor.trace.parse.columns import UNKNOWN, Ints, Trace
from perfdoctor.trace.results import AttentionUse

PRODUCTS = ("aten::bmm", "aten::baddbmm")
FORWARD, BACKWARD = "aten::_softmax", "aten::_softmax_backward_data"
TORCHS_OWN = ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math")
SUMS = ("count", "between_us", "products_us")

# Numbers of a softmax and the products beside it, and of all products that belong to it.
Triple = tuple[int, int, int, Ints]
Rows = tuple[int, int]  # how many, and how long each is


class Attention:
    """Finds attention in the judged steps or, without them, anywhere.

    Costs are of the device; where `host` says when operators ran, of the host. Without shapes, the products
    around a softmax are taken to be its scores and its values.
    """

    def __init__(self, trace: Trace, launching: Ints, host: Spans | None) -> None:
        self.trace = trace
        self.launching = launching
        self.host = host
        self.calls = ByThread(trace.calls)
        self.sizes: Mapping[int, Product | None] = {}  # of the products beside a softmax, by their numbers
        self.rows: Mapping[int, Rows | None] = {}  # of each softmax
        self.device_ns_before: dict[int, Ints] = {}  # by thread: what was launched before each of its calls

    def all(self, steps: Spans) -> tuple[AttentionUse, ...]:
        """Those of one kind added up, costliest first."""
        found = list(self._triples(steps))
        self.sizes = self._sizes([op for first, _, last, _ in found for op in (first, last)])
        self.rows = self._rows([softmax for _, softmax, *_ in found])
        triples = self._by_script([triple for triple in found if self._is_one(triple)])
        softmax = np.array([triple[1] for triple in triples], np.int64)
        ops = self.trace.ops
        place = places(self.trace, ops.thread[softmax], ops.begin_ns[softmax], softmax, softmax)
        kinds: dict[tuple[object, ...], list[AttentionUse]] = defaultdict(list)
        for triple, at in zip(triples, place.lines(self.trace), strict=True):
            use = self._use(*triple, at)
            kinds[use.backward, use.heads, use.queries, use.keys, use.at].append(use)
        return tuple(sorted(map(_merged, kinds.values()), key=lambda use: -use.between_us))

    def _triples(self, steps: Spans) -> Iterator[Triple]:
        """Numbers of each softmax and the products beside it, and of all products that belong to it."""
        ops, names = self.trace.ops, self.trace.names
        kind = np.array(
            [1 if name in PRODUCTS else 2 if name in (FORWARD, BACKWARD) else 0 for name in names]
        )
        rows = np.flatnonzero(kind[ops.name]) if (kind == 2).any() else np.empty(0, np.int64)
        if len(steps):
            rows = rows[steps.hold(ops.begin_ns[rows])]
        rows = rows[np.lexsort((ops.begin_ns[rows], ops.thread[rows]))]
        what, thread = kind[ops.name[rows]], ops.thread[rows]
        fits = (what[:-2] == 1) & (what[1:-1] == 2) & (what[2:] == 1) & (thread[:-2] == thread[2:])
        for place in np.flatnonzero(fits).tolist():
            first, softmax, last = rows[place : place + 3].tolist()
            reach = 2 if self._is_backward(softmax) else 1  # the gradient of a product is two products
            near = slice(max(0, place + 1 - reach), place + 2 + reach)
            yield first, softmax, last, rows[near][(what[near] == 1) & (thread[near] == thread[place])]

    def _is_one(self, triple: Triple) -> bool:
        """Whether the sizes of the three are those of attention, as far as they are recorded."""
        first, softmax, last, _ = triple
        if self._is_backward(softmax):
            return True
        return _fit(self.sizes[first], self.rows[softmax], self.sizes[last])

    def _by_script(self, triples: list[Triple]) -> list[Triple]:
        """Those that torch's own attention did not make.

        A gradient does not say whose it is: backward goes through what forward did from its end, so each is
        that of the latest attention that has none yet.
        """
        ops = self.trace.ops
        named = np.array([name in TORCHS_OWN for name in self.trace.names], bool)
        own = np.flatnonzero(named[ops.name])
        if not len(own):
            return triples
        calls, by_script, open_ = ByThread(ops, own), [], list[bool]()
        for triple in sorted(triples, key=lambda triple: int(ops.begin_ns[triple[1]])):
            if self._is_backward(triple[1]):
                is_own = open_.pop() if open_ else False
            else:
                is_own = self._is_inside(triple[1], calls)
                open_.append(is_own)
            if not is_own:
                by_script.append(triple)
        return by_script

    def _is_inside(self, op: int, calls: ByThread) -> bool:
        ops = self.trace.ops
        rows, begin = calls.of(int(ops.thread[op]))
        before = rows[: np.searchsorted(begin, ops.begin_ns[op], side="right")]
        return bool(len(before)) and bool(ops.ends_ns(before)[-1] > ops.begin_ns[op])

    def _use(self, first: int, softmax: int, last: int, products: Ints, at: Location | None) -> AttentionUse:
        ops, backward = self.trace.ops, self._is_backward(softmax)
        thread = int(ops.thread[softmax])
        scores = None if backward else self.sizes[first]
        begins, ends = ops.begin_ns[products].tolist(), ops.ends_ns(products).tolist()
        return AttentionUse(
            backward=backward,
            heads=scores.batch if scores else None,
            queries=scores.m if scores else None,
            keys=scores.n if scores else None,
            at=at,
            count=1,
            between_us=self._cost_us(
                thread, int(ops.begin_ns[first] + ops.duration_ns[first]), int(ops.begin_ns[last])
            ),
            products_us=sum(self._cost_us(thread, *span) for span in zip(begins, ends, strict=True)),
        )

    def _cost_us(self, thread: int, begin_ns: int, end_ns: int) -> float:
        if self.host is not None:
            return int(self.host.within(begin_ns, end_ns)) / NS
        rows, begin = self.calls.of(thread)
        if thread not in self.device_ns_before:
            total_ns = np.cumsum(self._device_ns[rows])
            self.device_ns_before[thread] = np.concatenate(([0], total_ns))
        before = self.device_ns_before[thread]
        first, last = np.searchsorted(begin, (begin_ns, end_ns))
        return int(before[last] - before[first]) / NS

    @cached_property
    def _device_ns(self) -> Ints:
        """(calls,) int64: nanoseconds of what each launched. Without attention, nothing asks for it."""
        launched = np.flatnonzero(self.launching != UNKNOWN)
        durations = self.trace.device.duration_ns[launched]
        ns = np.bincount(self.launching[launched], weights=durations, minlength=len(self.trace.calls))
        return ns.astype(np.int64)  # a float64 holds whole nanoseconds exactly up to 104 days

    def _is_backward(self, softmax: int) -> bool:
        return bool(self.trace.names[self.trace.ops.name[softmax]] == BACKWARD)

    def _sizes(self, ops: Sequence[int]) -> Mapping[int, Product | None]:
        """The product that each operator computes, by its number; None where shapes do not tell."""
        recorded = recorded_inputs(self.trace, np.array(ops, np.int64))
        names = (self.trace.op_name(op) or "" for op in ops)
        given = zip(names, recorded, strict=True)
        costs = [work(name, inputs) if inputs is not None else None for name, inputs in given]
        return {op: cost.product if cost else None for op, cost in zip(ops, costs, strict=True)}

    def _rows(self, ops: Sequence[int]) -> Mapping[int, Rows | None]:
        """How many rows of which length each softmax takes; None where shapes do not tell."""
        recorded = recorded_inputs(self.trace, np.array(ops, np.int64))
        shapes = [inputs.shapes[0] if inputs is not None and inputs.shapes else () for inputs in recorded]
        return {
            op: (math.prod(shape[:-1]), shape[-1]) if shape else None
            for op, shape in zip(ops, shapes, strict=True)
        }


def _fit(scores: Product | None, rows: Rows | None, values: Product | None) -> bool:
    """Whether [queries, size] x [size, keys] is followed by [queries, keys] x [keys, size], if known.

    What stands between them is a softmax over the keys of each query: a router's of a mixture of experts,
    whose experts are two such products as well, is one over the experts of each token.
    """
    if scores is not None and rows is not None and rows != (scores.batch * scores.m, scores.n):
        return False
    if scores is None or values is None:
        return True
    return (scores.batch, scores.m, scores.n) == (values.batch, values.m, values.k)


def _merged(alike: Sequence[AttentionUse]) -> AttentionUse:
    return replace(alike[0], **{name: sum(getattr(use, name) for use in alike) for name in SUMS})
