"""Finds matrices that are factorised again, for each right-hand side or call: RepeatedFactorizationFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.looked_at import LookedAt, looked_at
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.repeated_factorizations import (
    RepeatedFactorizationsLineEvent,
    RepeatedFactorizationsLookEvent,
)


@dataclass(frozen=True)
class FactorizationLine:
    """A line that factorises the same matrices several times."""

    at: Location
    share: float  # of a sampled step, with backward; the median
    function: str  # the costliest
    matrices: int  # different ones
    width: int
    times: int  # that each is factorised by a call
    again: int = 0  # calls of a step whose matrices an earlier one had


@dataclass(frozen=True)
class RepeatedFactorizationFacts:
    """What factorising a matrix several times takes of a step."""

    share: Estimate  # of a sampled step, backward included: the least, the median and the largest
    repeated: float  # the part of it that goes where each is factorised once
    lines: tuple[FactorizationLine, ...]  # costliest first
    samples: int  # steps


@fact
def repeated_factorization_facts(
    rank: RankRecords, step: StepFacts, sources: Sources
) -> RepeatedFactorizationFacts | Missing | None:
    """What the sampled steps factorised several times, or None with too few of them to tell."""
    told = (event for event in rank.of(RepeatedFactorizationsLineEvent) if event.times > 1 or event.again)
    seen = looked_at(rank.of(RepeatedFactorizationsLookEvent), told, rank, step, sources)
    if not isinstance(seen, LookedAt):
        return seen
    lines = [
        FactorizationLine(
            at=line.at,
            share=line.share,
            function=next(iter(line.events[-1].names), ""),
            matrices=line.events[-1].matrices,
            width=line.events[-1].width,
            times=line.events[-1].times,
            again=line.events[-1].again,
        )
        for line in seen.lines
    ]
    return RepeatedFactorizationFacts(
        share=seen.share,
        repeated=min(1.0, max(0.0, median(look.repeated for look in seen.looks))),
        lines=tuple(lines),
        samples=len(seen.looks),
    )
