"""Steps that were looked at call by call: what some calls take of them, with backward, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from perfdoctor.facts.decode import location
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.script import DeviceEvent

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


class LineInALook(TakenInALook, Protocol):
    """What one look tells of the calls of one line."""

    @property
    def at(self) -> dict[str, Any] | None:
        """The line, as `facts.decode.location` reads it."""
        ...


Look = TypeVar("Look", bound=LookedAtStep)
InALook = TypeVar("InALook", bound=LineInALook)


@dataclass(frozen=True)
class LookedAtLine(Generic[InALook]):
    """One line in all sampled steps."""

    at: Location
    share: float  # of a sampled step, with backward; the median
    events: tuple[InALook, ...]  # of the steps that name it, at least one


@dataclass(frozen=True)
class LookedAt(Generic[Look, InALook]):
    """What calls of one kind take of the sampled steps."""

    looks: tuple[Look, ...]
    share: Estimate  # of a sampled step, backward included: the least, the median and the largest
    lines: tuple[LookedAtLine[InALook], ...]  # costliest first


def looked_at(
    looks: Iterable[Look], lines: Iterable[InALook], rank: RankRecords, step: StepFacts, sources: Sources
) -> LookedAt[Look, InALook] | Missing | None:
    """What these looks tell together; None with too few of them, or on a device the reason for that."""
    looks = tuple(look for look in looks if look.look is not None and look.step_s > 0)
    if len(looks) < FEW:
        return Missing(NO_VALUES) if rank.of(DeviceEvent) else None
    shares = sorted(share_of_look(look, look.step_s, step) for look in looks)
    found: dict[Location, list[InALook]] = {}
    for event in lines:
        at = location(event.at)
        if at is not None:
            found.setdefault(at, []).append(event)
    told = [
        LookedAtLine(sources.shown(at) or at, share_of_line(events, looks, step), tuple(events))
        for at, events in found.items()
    ]
    return LookedAt(
        looks=looks,
        share=Estimate(shares[0], median(shares), shares[-1]),
        lines=tuple(sorted(told, key=lambda line: -line.share)),
    )


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
