"""Tells how much of the graph several backwards of a step pass through together: RepeatedBackwardFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import RepeatedBackwardEvent


@dataclass(frozen=True)
class RepeatedBackwardFacts:
    """Backwards of one step whose graphs have a part in common."""

    shared: float  # share of a backward's nodes that the one before has passed already
    compared: int  # pairs of backwards
    at: Location | None  # the line of the second
    batches: float = 1.0  # in a step: where they accumulate, each has a graph of its own


@fact
def repeated_backward_facts(
    rank: RankRecords, sources: Sources, loader: LoaderFacts | Missing | None = None
) -> RepeatedBackwardFacts | None:
    """What the compared pairs have in common, or None where nothing is."""
    pairs = [event for event in rank.of(RepeatedBackwardEvent) if event.nodes]
    shared = median(min(1.0, event.shared / event.nodes) for event in pairs) if pairs else 0.0
    if not shared:
        return None
    batches = max(1.0, loader.batches_per_step) if isinstance(loader, LoaderFacts) else 1.0
    return RepeatedBackwardFacts(shared, len(pairs), sources.shown(location(pairs[-1].at)), batches)
