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
from perfdoctor.wire.events.training import RepeatedBackwardEvent, RepeatedPassEvent


@dataclass(frozen=True)
class RepeatedPass:
    """Two backwards from the same loss, of which one computes nothing that the other does not."""

    seconds: float  # of that one, on the host, at the least: where other programs held the cores it is more
    other_s: float  # of the other
    adds: bool  # that one is no call of `autograd.grad`
    other_adds: bool
    compared: int  # pairs of backwards
    at: Location | None  # its line


@dataclass(frozen=True)
class RepeatedBackwardFacts:
    """Backwards of one step whose graphs have a part in common, or are the same."""

    shared: float  # share of a backward's nodes that the one before has passed already
    compared: int  # pairs of backwards
    at: Location | None  # the line of the second
    batches: float = 1.0  # in a step: where they accumulate, each has a graph of its own
    same: RepeatedPass | None = None  # where two go back from the same loss


@fact
def repeated_backward_facts(
    rank: RankRecords, sources: Sources, loader: LoaderFacts | Missing | None = None
) -> RepeatedBackwardFacts | None:
    """What the compared pairs have in common, or None where nothing is."""
    pairs = [event for event in rank.of(RepeatedBackwardEvent) if event.nodes]
    shared = median(min(1.0, event.shared / event.nodes) for event in pairs) if pairs else 0.0
    same = _repeated_pass(rank, sources)
    if not shared and same is None:
        return None
    batches = max(1.0, loader.batches_per_step) if isinstance(loader, LoaderFacts) else 1.0
    at = sources.shown(location(pairs[-1].at)) if pairs else None
    return RepeatedBackwardFacts(shared, len(pairs), at, batches, same)


def _repeated_pass(rank: RankRecords, sources: Sources) -> RepeatedPass | None:
    pairs = rank.of(RepeatedPassEvent)
    if not pairs:
        return None
    last = pairs[-1]
    return RepeatedPass(
        min(pair.seconds for pair in pairs),
        min(pair.other_s for pair in pairs),
        last.adds,
        last.other_adds,
        len(pairs),
        sources.shown(location(last.at)),
    )
