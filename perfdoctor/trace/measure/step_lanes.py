"""Lays a usual step of a trace out: what the host and the device did at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

import numpy as np

from perfdoctor.trace.measure.annotations import Annotations, ProfilerStep
from perfdoctor.trace.measure.device_activity import Activity
from perfdoctor.trace.measure.intervals import NS, Spans, covered, parts, union
from perfdoctor.trace.measure.sync_calls import SyncCalls
from perfdoctor.trace.parse.columns import HostEvents, Ints, Trace
from perfdoctor.trace.results import StepLanes, WorkLane

APART = 0.002  # of the step: stretches that are nearer to each other would not be told apart


def step_lanes(
    trace: Trace,
    annotated: Annotations,
    steps: Sequence[ProfilerStep],
    active: Activity,
    waits: SyncCalls,
    loader: Spans,
) -> StepLanes | None:
    """The step of median length, without the first one where there are several; None without a step."""
    later = steps[1:] or steps
    if not later:
        return None
    lengths = [step.end_ns - step.begin_ns for step in later]
    step = later[lengths.index(median_low(lengths))]
    spans = {
        "loading": loader,
        "operators": _within(trace.ops, annotated.ops, step),
        "blocked": _within(trace.calls, waits.all, step),
        "compute": active.compute,
        "communication": active.comm,
        "copying": active.copies,
    }
    lanes = [
        WorkLane(kind, _stretches(each, step), int(each.within(step.begin_ns, step.end_ns)) / NS)
        for kind, each in spans.items()
    ]
    span_us = (step.end_ns - step.begin_ns) / NS
    return StepLanes(step.name, span_us, tuple(lane for lane in lanes if lane.stretches_us))


def _within(events: HostEvents, rows: Ints | None, step: ProfilerStep) -> Spans:
    """The time that events cover; of those that reach into a step, of millions."""
    reach = events.begin_ns < step.end_ns
    for part in parts(0, len(events)):
        reach[part] &= events.ends_ns(part) > step.begin_ns
    found = np.flatnonzero(reach)
    return covered(events, found if rows is None else np.intersect1d(found, rows, assume_unique=True))


def _stretches(spans: Spans, step: ProfilerStep) -> tuple[tuple[float, float], ...]:
    """Begins and ends from the step's begin on, in microseconds; those that touch to the eye are one."""
    begin = np.clip(spans.begin, step.begin_ns, step.end_ns) - step.begin_ns
    end = np.clip(spans.end, step.begin_ns, step.end_ns) - step.begin_ns
    gap = int(APART * (step.end_ns - step.begin_ns))
    joined = union(begin, np.where(end > begin, end + gap, end))
    ends = np.minimum(joined.end - gap, step.end_ns - step.begin_ns)
    return tuple(zip((joined.begin / NS).tolist(), (ends / NS).tolist(), strict=True))
