"""Finds what each step computes again from the same inputs: RecomputedConstantFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.constants import ConstantsLineEvent, ConstantsLookEvent
from perfdoctor.wire.events.script import DeviceEvent

FEW = 2  # sampled steps: one alone may have been odd


@dataclass(frozen=True)
class ConstantLine:
    """A line that computes what it computed before."""

    at: Location
    share: float  # of a sampled step, the median
    names: tuple[str, ...]  # of torch's functions, costliest first


@dataclass(frozen=True)
class RecomputedConstantFacts:
    """Calls of torch's functions that gave the same from the same inputs in all sampled steps."""

    share: Estimate  # of a sampled step: the least, the median and the largest
    lines: tuple[ConstantLine, ...]  # costliest first
    samples: int  # steps


@fact
def recomputed_constant_facts(
    rank: RankRecords, sources: Sources
) -> RecomputedConstantFacts | Missing | None:
    """What the sampled steps had in common, or None with too few of them to tell."""
    looks = [event for event in rank.of(ConstantsLookEvent) if (event.look or 0) > 1 and event.step_s > 0]
    if len(looks) < FEW:
        only = "calls are compared from step to step only where training runs on the CPU"
        return Missing(only) if rank.of(DeviceEvent) else None
    step_s = {event.look: event.step_s for event in looks}
    shares = sorted(min(1.0, event.seconds / event.step_s) for event in looks)
    found: dict[Location, list[ConstantsLineEvent]] = {}
    for event in rank.of(ConstantsLineEvent):
        at = location(event.at)
        if at is not None and event.look in step_s:
            found.setdefault(at, []).append(event)
    lines = [
        ConstantLine(
            at=sources.shown(at) or at,
            share=min(1.0, median([*by_look.values(), *[0.0] * (len(looks) - len(by_look))])),
            names=tuple(str(name) for name in events[-1].names),
        )
        for at, events in found.items()
        for by_look in [{event.look: event.seconds / step_s[event.look] for event in events}]
    ]
    return RecomputedConstantFacts(
        share=Estimate(shares[0], median(shares), shares[-1]),
        lines=tuple(sorted(lines, key=lambda line: -line.share)),
        samples=len(looks),
    )
