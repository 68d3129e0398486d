"""Shares of the steps that were looked at call by call, with backward."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Protocol

from perfdoctor.model.measured import Phase, StepFacts

FEW = 2  # sampled steps: one alone may have been odd
NO_VALUES = "the values of matrices are looked at only where training runs on the CPU"


class TakenInALook(Protocol):
    """What one look tells of some calls."""

    @property
    def look(self) -> int | None:
        """The number of the look, from 1; events of one look share it."""

    @property
    def seconds(self) -> float:
        """What the calls themselves took, backward apart."""

    @property
    def backward_s(self) -> float:
        """About what their counterparts in backward take."""


class LookedAtStep(TakenInALook, Protocol):
    """What one look tells of all such calls of the step."""

    @property
    def step_s(self) -> float:
        """The looked-at step, without the time that looking took."""


def share_of_look(taken: TakenInALook | None, step_s: float, step: StepFacts) -> float:
    """The share of a sampled step, forward and backward each no more than these phases usually have.

    A call that waits for Python's other threads takes longer than the work in it.
    """
    if taken is None:
        return 0.0
    backward = step.share(Phase.BACKWARD)
    rest = max(0.0, 1.0 - backward - step.share(Phase.DATA_WAIT) - step.share(Phase.OPTIMIZER))
    return min(rest, taken.seconds / step_s) + min(backward, taken.backward_s / step_s)


def share_of_line(events: Sequence[TakenInALook], looks: Sequence[LookedAtStep], step: StepFacts) -> float:
    """The median of one line's shares; it took nothing in the steps that do not name it."""
    by_look = {event.look: event for event in events}
    return median(share_of_look(by_look.get(look.look), look.step_s, step) for look in looks)
