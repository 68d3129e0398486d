"""The steps of a trace that what is told per step is of, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from perfdoctor.model.note import Note
from perfdoctor.trace.judged import judged, warms_up
from perfdoctor.trace.results import RankTrace, StepTrace

NS_PER_US = 1e3


def judged_steps(steps: Sequence[StepTrace]) -> tuple[StepTrace, ...]:
    """The steps that what is told per step is of."""
    numbers = judged([step.times.span_us for step in steps], [step.begun for step in steps])
    return tuple(steps[numbers.start : numbers.stop])


def left_out(trace: RankTrace) -> list[Note]:
    """Which steps are not judged, and why."""
    kept = judged_steps(trace.steps)
    if not kept:
        return []
    notes = []
    if kept[0] is not trace.steps[0]:
        is_slow = warms_up(_on_host_us(trace)[: 1 + len(kept)])
        notes.append(Note("warm-up-step" if is_slow else "lagging-step", {"step": trace.steps[0].name}))
    if kept[-1] is not trace.steps[-1]:
        notes.append(Note("idle-step", {"step": trace.steps[-1].name}))
    return notes


def _on_host_us(trace: RankTrace) -> list[float]:
    """How long each step took the host, up to the next one's mark; a device that lags may take it longer."""
    if trace.window is None:  # there is no device
        return [step.times.span_us for step in trace.steps]
    begin_ns = [step.begin_ns for step in trace.steps]
    end_ns = begin_ns[0] + trace.window.span_us * NS_PER_US
    return [(after - before) / NS_PER_US for before, after in pairwise((*begin_ns, end_ns))]
