"""Tells which stretch of time facts are about: from the first step to the last."""

from __future__ import annotations

from perfdoctor.facts.decode import number
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Ints, Steps
from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class MeasuredSpan:
    """From the first step's begin to the last step's end: what every share is a share of."""

    begin_ns: int
    end_ns: int
    steps: float
    step_ends_ns: Ints

    @classmethod
    def of(cls, steps: Steps) -> MeasuredSpan:
        """The span of these steps."""
        return cls(int(steps.begin_ns[0]), int(steps.end_ns[-1]), float(steps.weight.sum()), steps.end_ns)

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.begin_ns) / 1e9

    def holds(self, t_ns: object) -> bool:
        """Whether a moment lies inside."""
        return self.begin_ns <= number(t_ns) <= self.end_ns


@fact
def measured_span(steps: Steps) -> MeasuredSpan:
    """The span of the run's steps."""
    return MeasuredSpan.of(steps)
