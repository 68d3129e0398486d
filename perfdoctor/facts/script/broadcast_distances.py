"""Finds distances and similarities of all pairs that are taken element by element: BroadcastDistanceFacts."""

from __future__ import annotations

from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.looked_at import LookedAt, looked_at
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.broadcast_distances import (
    BroadcastDistancesLineEvent,
    BroadcastDistancesLookEvent,
)


@dataclass(frozen=True)
class BroadcastDistanceLine:
    """A line that broadcasts two tensors against each other, to sum up over the numbers of each pair."""

    at: Location
    share: float  # of a sampled step, with the sum and with backward; the median
    pairs: int
    width: int  # numbers of each pair
    kind: str  # "cosine", "product", "distance" or "absolute"


@dataclass(frozen=True)
class BroadcastDistanceFacts:
    """What such distances and similarities take of a step."""

    share: Estimate  # of a sampled step, backward included: the least, the median and the largest
    lines: tuple[BroadcastDistanceLine, ...]  # costliest first
    samples: int  # steps


@fact
def broadcast_distance_facts(
    rank: RankRecords, step: StepFacts, sources: Sources
) -> BroadcastDistanceFacts | Missing | None:
    """What the sampled steps broadcast, or None with too few of them to tell."""
    told = (event for event in rank.of(BroadcastDistancesLineEvent) if event.pairs > 0)
    seen = looked_at(rank.of(BroadcastDistancesLookEvent), told, rank, step, sources)
    if not isinstance(seen, LookedAt):
        return seen
    lines = [
        BroadcastDistanceLine(
            at=line.at,
            share=line.share,
            pairs=line.events[-1].pairs,
            width=line.events[-1].width,
            kind=line.events[-1].kind,
        )
        for line in seen.lines
    ]
    return BroadcastDistanceFacts(share=seen.share, lines=tuple(lines), samples=len(seen.looks))
