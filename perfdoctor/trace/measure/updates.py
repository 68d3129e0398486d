"""Tells which calls of the runtime update parameters, or work on all gradients just before that."""

from __future__ import annotations

import numpy as np

from perfdoctor.trace.measure.annotations import Annotations
from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.measure.intervals import union
from perfdoctor.trace.parse.columns import Flags, Ints, Trace

OPTIMIZER = "Optimizer.step#"
NODE = "autograd::engine::evaluate_function"  # of a backward pass, whichever thread walks through it


def in_updates(trace: Trace, annotations: Annotations) -> tuple[Flags, Flags]:
    """(calls,) bool each: made inside an optimizer's step; made between the backward pass and that step.

    Gradients are unscaled, measured and clipped there: no compiled model does it for the script.
    """
    inside, before = np.zeros(len(trace.calls), bool), np.zeros(len(trace.calls), bool)
    rows = annotations.rows(lambda name: name.startswith(OPTIMIZER))
    back = _backward_ends_ns(trace)
    for thread in sorted(set(annotations.events.thread[rows].tolist())):
        steps = rows[annotations.events.thread[rows] == thread]
        calls = np.flatnonzero(trace.calls.thread == thread)
        begin = trace.calls.begin_ns[calls]
        inside[calls] = annotations.spans(steps).hold(begin)
        stepped = annotations.events.begin_ns[steps]
        latest = np.searchsorted(back, stepped) - 1
        led = latest >= 0
        if led.any():
            before[calls] = union(back[latest[led]], stepped[led]).hold(begin) & ~inside[calls]
    return inside, before


def _backward_ends_ns(trace: Trace) -> Ints:
    """When each node of a backward pass was done, in order."""
    nodes = events_named(trace.names, trace.ops.name, lambda name: name.startswith(NODE))
    ends: Ints = np.sort(trace.ops.ends_ns(np.flatnonzero(nodes)))
    return ends
