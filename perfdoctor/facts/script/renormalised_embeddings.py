"""Finds look-ups that renormalise rows of their table first: RenormalisedEmbeddingFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.looked_at import FEW
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.embeddings import RenormalisationLookEvent, RenormalisedTableEvent
from perfdoctor.wire.events.script import DeviceEvent


@dataclass(frozen=True)
class RenormalisedTable:
    """The tables that one line constructs."""

    at: Location
    called: Location | None  # the line of the longest look-up
    share: float  # of a sampled step that look-ups take, the median
    calls: float  # a step, the median
    lookups: float  # rows that a step looks up, the median
    width: int  # elements of a row


@dataclass(frozen=True)
class RenormalisedEmbeddingFacts:
    """What look-ups with `max_norm` take."""

    share: Estimate  # of a sampled step: the least, the median and the largest
    tables: tuple[RenormalisedTable, ...]  # costliest first
    samples: int  # steps


@fact
def renormalised_embedding_facts(
    rank: RankRecords, sources: Sources
) -> RenormalisedEmbeddingFacts | Missing | None:
    """What the sampled steps looked up with `max_norm`, or None with too few of them to tell."""
    looks = [
        event for event in rank.of(RenormalisationLookEvent) if event.look is not None and event.step_s > 0
    ]
    if len(looks) < FEW:
        only = "look-ups are timed only where training runs on the CPU"
        return Missing(only) if rank.of(DeviceEvent) else None
    shares = sorted(min(1.0, event.seconds / event.step_s) for event in looks)
    found: dict[Location, list[RenormalisedTableEvent]] = {}
    for event in rank.of(RenormalisedTableEvent):
        at = location(event.at)
        if at is not None and event.look is not None:
            found.setdefault(at, []).append(event)
    tables = [_table(at, events, looks, sources) for at, events in found.items()]
    return RenormalisedEmbeddingFacts(
        share=Estimate(shares[0], median(shares), shares[-1]),
        tables=tuple(sorted(tables, key=lambda table: -table.share)),
        samples=len(looks),
    )


def _table(
    at: Location,
    events: list[RenormalisedTableEvent],
    looks: list[RenormalisationLookEvent],
    sources: Sources,
) -> RenormalisedTable:
    """The tables of one line in all sampled steps; nothing was looked up in those that do not name it."""
    by_look = {event.look: event for event in events}
    there = [(by_look.get(look.look), look.step_s) for look in looks]
    return RenormalisedTable(
        at=sources.shown(at) or at,
        called=sources.shown(location(events[-1].called)),
        share=min(1.0, median(event.seconds / step_s if event else 0.0 for event, step_s in there)),
        calls=median(event.calls if event else 0 for event, _ in there),
        lookups=median(event.lookups if event else 0 for event, _ in there),
        width=max(event.width for event in events),
    )
