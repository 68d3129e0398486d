"""Measures what operators compute on the host, call by call: their work by their shapes, and their time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from perfdoctor.trace.measure.annotations import Annotations
from perfdoctor.trace.measure.flops import CallWork, work
from perfdoctor.trace.measure.intervals import NS, Spans
from perfdoctor.trace.measure.nesting import Forest, forests
from perfdoctor.trace.measure.operators import input_numbers
from perfdoctor.trace.parse.columns import UNKNOWN, Flags, Ints, Trace
from perfdoctor.trace.results import HostWork

OPTIMIZER = "Optimizer."

Kind = tuple[int, int]  # of calls: index into Trace.names, and into Trace.inputs or UNKNOWN


def host_work(trace: Trace, annotated: Annotations, steps: Spans, loader: Spans) -> tuple[HostWork, ...]:
    """Calls of operators in the steps, those of optimizers and of a DataLoader left out, longest first.

    An operator whose work shapes tell has the time of all that it calls; any other has its own alone.
    """
    if not len(trace.inputs):
        return ()
    updates = annotated.spans(annotated.rows(lambda name: name.startswith(OPTIMIZER)))
    calls: dict[Kind, list[Ints]] = defaultdict(list)
    for forest in forests(trace.ops, annotated.ops):
        begin_ns = forest.begin_ns
        counts = steps.hold(begin_ns) & ~updates.hold(begin_ns) & ~loader.hold(begin_ns)
        for kind, each_ns in _calls(trace, forest, counts):
            calls[kind].append(each_ns)
    uses = [_use(trace, kind, np.concatenate(parts)) for kind, parts in calls.items()]
    return tuple(sorted(uses, key=lambda use: -use.us))


def _calls(trace: Trace, forest: Forest, counts: Flags) -> Iterator[tuple[Kind, Ints]]:
    """Nanoseconds of each call that counts, without those inside one whose work is known: (n,) int64 of each
    kind, by its first call.
    """
    of_name = len(trace.inputs) + 1  # kinds of one name are numbered one behind the other
    numbers = trace.ops.name[forest.rows] * np.int64(of_name) + (input_numbers(trace, forest.rows) - UNKNOWN)
    found, which = np.unique(numbers, return_inverse=True)
    kinds = [(number // of_name, number % of_name + UNKNOWN) for number in found.tolist()]
    known = np.array([_work(trace, kind) is not None for kind in kinds], bool)[which]
    owner = _owners(forest.parent, known)
    is_own = owner == np.arange(len(owner))
    spent_ns = np.where(is_own, forest.end_ns - forest.begin_ns, forest.self_ns())
    places = np.flatnonzero(counts & ((owner == UNKNOWN) | is_own))
    places = places[np.argsort(which[places], kind="stable")]
    alike = np.split(places, np.flatnonzero(np.diff(which[places])) + 1) if len(places) else []
    for calls in sorted(alike, key=lambda calls: int(calls[0])):
        yield kinds[which[calls[0]]], spent_ns[calls]


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


def _work(trace: Trace, kind: Kind) -> CallWork | None:
    name, inputs = kind
    return work(trace.names[name], trace.inputs[inputs]) if inputs != UNKNOWN else None


def _use(trace: Trace, kind: Kind, each_ns: Ints) -> HostWork:
    each = _work(trace, kind)
    us = len(each_ns) * float(np.median(each_ns)) / NS
    return HostWork(trace.names[kind[0]], len(each_ns), us, each.flops if each is not None else None)
