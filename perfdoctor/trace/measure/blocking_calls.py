"""Groups blocking runtime calls by the operator, the annotation and the user's line that made them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfdoctor.trace.measure.annotations import STEP, Annotations
from perfdoctor.trace.measure.copies import on_bus, parse
from perfdoctor.trace.measure.intervals import NS
from perfdoctor.trace.measure.nesting import innermost
from perfdoctor.trace.measure.operators import Operators
from perfdoctor.trace.measure.source_places import line, places
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, Ints, Trace
from perfdoctor.trace.results import BlockingCalls


def blocking(
    trace: Trace, annotations: Annotations, ops: Operators, launching: Ints, calls: Ints, idle_ns: Ints
) -> tuple[BlockingCalls, ...]:
    """Add up the blocking calls numbered `calls` that come from the same place; longest first.

    `launching` as from `launching_calls`; `idle_ns`, one for each call of the trace: how long the device
    stood idle for it.
    """
    if not len(calls):
        return ()
    thread, at_ns = trace.calls.thread[calls], trace.calls.begin_ns[calls]
    no_steps = annotations.rows(lambda name: not STEP.fullmatch(name))
    annotation = innermost(annotations.events, no_steps, thread, at_ns)
    outer = ops.outermost[calls]
    place = places(trace, thread, at_ns, ops.innermost[calls], outer)
    keys = (
        trace.calls.name[calls],
        _names(trace.ops.name, outer),
        _names(annotations.events.name, annotation),
        place.function,
        place.stack,
        _copied(trace, ops, launching, calls),
    )
    first, which, count = _alike(keys)
    us = np.bincount(which, weights=trace.calls.duration_ns[calls]) / NS
    idle_us = np.bincount(which, weights=idle_ns[calls]) / NS
    kinds = zip(*(key[first].tolist() for key in keys), strict=True)
    groups = []
    for number, (call, op, annotation, function, stack, copy) in enumerate(kinds):
        direction, memory = parse(trace.names[copy]) if copy != UNKNOWN else (None, None)
        groups.append(
            BlockingCalls(
                call=trace.names[call],
                op=trace.text(op),
                at=line(trace, function, stack),
                annotation=trace.text(annotation),
                count=int(count[number]),
                us=float(us[number]),
                idle_us=float(idle_us[number]),
                direction=direction,
                host_memory=memory,
            )
        )
    return tuple(sorted(groups, key=lambda use: (-use.us, use.call)))


def _alike(keys: Sequence[Ints]) -> tuple[Ints, Ints, Ints]:
    """Of rows that all `keys` have in common, in their order: one, which row is of them, and how many are."""
    which: Ints = np.zeros(len(keys[0]), np.int64)
    for key in keys:  # one by one: np.unique(axis=1) takes several times as much memory and time
        number = key.astype(np.int64) - UNKNOWN
        _, which = np.unique(which * (number.max() + 1) + number, return_inverse=True)
    _, first, count = np.unique(which, return_index=True, return_counts=True)
    return first, which, count


def _copied(trace: Trace, ops: Operators, launching: Ints, calls: Ints) -> Ints:
    """Numbers of the names of the copies over the bus that blocking calls or their operators made."""
    device = trace.device
    copies = np.flatnonzero((device.kind == DeviceKind.COPY) & (launching != UNKNOWN) & on_bus(trace))
    by_call = np.full(len(trace.calls), UNKNOWN, np.int32)
    by_call[launching[copies]] = device.name[copies]
    by_op = np.full(len(trace.ops) + 1, UNKNOWN, np.int32)  # the last one is no operator's
    by_op[ops.outermost[launching[copies]]] = device.name[copies]
    by_op[UNKNOWN] = UNKNOWN
    return np.where(by_call[calls] == UNKNOWN, by_op[ops.outermost[calls]], by_call[calls])


def _names(column: Ints, rows: Ints) -> Ints:
    """Numbers of the names of events, UNKNOWN where there is no event."""
    if not len(column):
        return np.full(len(rows), UNKNOWN, np.int64)
    return np.where(rows == UNKNOWN, UNKNOWN, column[rows].astype(np.int64))
