"""Tells what derivatives cost that one call could take together: SeparateDerivativesFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import SeparateDerivativesEvent


@dataclass(frozen=True)
class SeparateDerivativesFacts:
    """Derivatives of the same outputs by several inputs, one call of `autograd.grad` for each."""

    calls: float  # between two backwards, the median
    again: float  # of them, those whose output another one derives too
    share: float  # of the backward phase, in all calls
    again_share: float  # of it, in those that could be a part of another
    through: bool  # whether the loss goes back through what they made
    at: tuple[Location, ...]  # the lines that ask for those of one output


@fact
def separate_derivatives_facts(rank: RankRecords, sources: Sources) -> SeparateDerivativesFacts | None:
    """What the looked-at steps have in common, or None where no output is derived twice."""
    looks = [look for look in rank.of(SeparateDerivativesEvent) if look.seconds + look.backward_s > 0]
    if not looks:
        return None
    return SeparateDerivativesFacts(
        median(look.calls for look in looks),
        median(look.again for look in looks),
        median(look.seconds / (look.seconds + look.backward_s) for look in looks),
        median(min(look.seconds, look.again_s) / (look.seconds + look.backward_s) for look in looks),
        any(look.again_nodes for look in looks),
        tuple(at for line in looks[-1].lines if (at := sources.shown(location(line))) is not None),
    )
