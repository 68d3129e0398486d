"""What one call in place of a Python loop saves, and what is said of a device that waits for its host."""

from __future__ import annotations

from typing import Protocol

from perfdoctor.model.change import NOTHING, Estimate
from perfdoctor.model.measured import Phase, StepFacts

BACKWARD = (3.0, 2.0, 1.0)  # times forward, of the rest of the model: at most, likely, at least
BEHIND = (1.0, 2.0, 4.0)  # times such loops, at most: what is behind them
# What is left: one call that does the work of a loop takes a tenth to a hundredth of it, if it does not have
# to keep more in memory than fits into caches. High is the most.
LEFT = Estimate(0.01, 0.1, 0.5)


class PythonLoops(Protocol):
    """What loops take, outside of backward."""

    @property
    def share(self) -> float:
        """Of the step."""

    @property
    def in_forward(self) -> float:
        """The part of it that the timers charge to forward."""

    @property
    def waited(self) -> float | None:
        """Share of the step in which a device waits for its host; None: not known."""


def shares(loops: PythonLoops, step: StepFacts) -> tuple[float, Estimate]:
    """(share of the step in such lines or loops, share of the step that backward takes for them).

    Going backward through the rest of the model takes about twice what going forward does (as many products
    for the inputs as for the weights); what backward takes beyond that is the counterpart of such lines, up
    to some times what these take: an indexed tensor, for one, gets a whole one of zeros. A host that a device
    waits for launches operators, large or small: of backward, their part likely is that of forward.
    """
    share = min(1.0, loops.share)
    if step.mean_s <= 0:
        return share, NOTHING
    forward, backward = (step.share(phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
    rest = max(0.0, forward - loops.in_forward)
    beyond = (max(0.0, backward - times * rest) for times in BACKWARD)
    low, likely, high = (min(each, times * share) for each, times in zip(beyond, BEHIND, strict=True))
    if loops.waited is not None:
        likely = backward * share / max(share, rest + share)
        low, high = min(low, likely), max(high, likely)
    return share, Estimate(low, likely, high)


def gone(share: float, behind: Estimate, left: Estimate, waited: float | None) -> tuple[float, float, float]:
    """(low, likely, high) share of the step that goes, of loops and of their counterparts in backward.

    Where a device waits for its host, no more goes than the share of the step in which it does, `waited`.
    """
    most = 1.0 if waited is None else waited

    def part(behind_it: float, kept: float) -> float:
        return min(most, min(1.0, share + behind_it) * (1 - kept))

    return part(behind.low, left.high), part(behind.likely, left.likely), part(behind.high, left.low)


def waiting(waited: float | None) -> tuple[str, ...]:
    """The evidence that a device waits, if it is known to."""
    return () if waited is None else (f"the device waits for its host {waited:.0%} of the time",)
