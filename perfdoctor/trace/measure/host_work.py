"""Measures what operators compute on the host, call by call: their work by their shapes, and their time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

import numpy as np

from perfdoctor.trace.measure.annotations import Annotations
from perfdoctor.trace.measure.flops import work
from perfdoctor.trace.measure.intervals import NS, Spans
from perfdoctor.trace.measure.nesting import Forest, forests
from perfdoctor.trace.measure.operators import recorded_inputs
from perfdoctor.trace.parse.columns import UNKNOWN, Flags, Inputs, Ints, Trace
from perfdoctor.trace.results import HostWork

OPTIMIZER = "Optimizer."


def host_work(trace: Trace, annotated: Annotations, steps: Spans, loader: Spans) -> tuple[HostWork, ...]:
    """Calls of operators in the steps, those of optimizers and of a DataLoader left out, longest first.

    An operator whose work shapes tell has the time of all that it calls; any other has its own alone.
    """
    if not len(trace.inputs):
        return ()
    updates = annotated.spans(annotated.rows(lambda name: name.startswith(OPTIMIZER)))
    calls: dict[tuple[int, Inputs | None], list[int]] = defaultdict(list)
    for forest in forests(trace.ops, annotated.ops):
        begin_ns = forest.begin_ns
        counts = steps.hold(begin_ns) & ~updates.hold(begin_ns) & ~loader.hold(begin_ns)
        for name, inputs, duration_ns in _calls(trace, forest, counts):
            calls[name, inputs].append(duration_ns)
    uses = [
        _use(trace.names[name], inputs, len(each_ns), len(each_ns) * median(each_ns) / NS)
        for (name, inputs), each_ns in calls.items()
    ]
    return tuple(sorted(uses, key=lambda use: -use.us))


def _calls(trace: Trace, forest: Forest, counts: Flags) -> Iterator[tuple[int, Inputs | None, int]]:
    """Name, inputs and nanoseconds of each call that counts, without those inside one whose work is known."""
    inputs = recorded_inputs(trace, forest.rows)
    names = trace.ops.name[forest.rows].tolist()
    known = np.array(
        [
            given is not None and work(trace.names[name], given) is not None
            for name, given in zip(names, inputs, strict=True)
        ],
        bool,
    )
    owner = _owners(forest.parent, known)
    spent_ns = np.where(owner == np.arange(len(owner)), forest.end_ns - forest.begin_ns, forest.self_ns())
    for place in np.flatnonzero(counts & ((owner == UNKNOWN) | (owner == np.arange(len(owner))))).tolist():
        yield names[place], inputs[place], int(spent_ns[place])


def _owners(parent: Ints, known: Ints) -> Ints:
    """The outermost event of known work around each event, or itself; UNKNOWN where there is none."""
    owner = np.where(known, np.arange(len(known)), UNKNOWN)
    inner = np.flatnonzero(parent != UNKNOWN)
    while True:  # as often as events are nested
        above = owner[parent[inner]]
        changed = (above != UNKNOWN) & (above != owner[inner])
        if not changed.any():
            return np.asarray(owner)
        owner[inner[changed]] = above[changed]


def _use(op: str, inputs: Inputs | None, count: int, us: float) -> HostWork:
    each = work(op, inputs) if inputs is not None else None
    return HostWork(op, count, us, each.flops if each is not None else None)
