"""The steps that annotations mark, and which of them are judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.judged import judged
from perfdoctor.trace.measure.annotations import Annotations, ProfilerStep, edges
from perfdoctor.trace.measure.device_steps import device_steps
from perfdoctor.trace.measure.intervals import parts
from perfdoctor.trace.parse.columns import Ints, Trace


@dataclass(frozen=True)
class MarkedSteps:
    """The steps that annotations mark, n of them."""

    marked: list[ProfilerStep]  # (n,) by the host's time
    worked: list[ProfilerStep]  # (n,) by the device's, where it is known
    begun: list[int]  # (n,) operators and calls of the runtime that began in each

    def judged(self, by_device: bool = False) -> list[ProfilerStep]:
        """The steps that what is told per step is of."""
        kept = judged([step.end_ns - step.begin_ns for step in self.worked], self.begun)
        return (self.worked if by_device else self.marked)[kept.start : kept.stop]


def marked_steps(trace: Trace, annotated: Annotations, call: Ints, by_device: bool) -> MarkedSteps:
    """The steps of a trace; `by_device`: when the device worked on each is known."""
    steps = annotated.steps()
    worked = device_steps(trace, call, steps) if by_device else steps
    return MarkedSteps(steps, worked, _begun(trace, annotated, steps))


def _begun(trace: Trace, annotated: Annotations, steps: Sequence[ProfilerStep]) -> list[int]:
    """How many operators and calls of the runtime began in each step."""
    ops_ns = trace.ops.begin_ns if annotated.ops is None else trace.ops.begin_ns[annotated.ops]
    bounds = np.stack(edges(steps), axis=1)
    counts = np.zeros(len(steps), np.int64)
    for begin_ns in (ops_ns, trace.calls.begin_ns):
        for part in parts(0, len(begin_ns)):  # sorted as a whole, millions would take as much memory again
            counts += np.diff(np.searchsorted(np.sort(begin_ns[part]), bounds), axis=1)[:, 0]
    return [int(count) for count in counts]
