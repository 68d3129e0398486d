"""Finds products with matrices that are mostly zero: ZeroProductFacts."""

from __future__ import annotations

from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.looked_at import LookedAt, looked_at
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.zero_products import ZeroProductsLineEvent, ZeroProductsLookEvent


@dataclass(frozen=True)
class ZeroProductLine:
    """A line that multiplies by a matrix that is mostly zero."""

    at: Location
    share: float  # of a sampled step, with making a one-hot matrix and with backward; the median
    rows: int
    columns: int
    nonzero_share: float  # of the matrix's elements
    one_hot: bool


@dataclass(frozen=True)
class ZeroProductFacts:
    """What products with zeros take of a step."""

    share: Estimate  # of a sampled step, backward included: the least, the median and the largest
    lines: tuple[ZeroProductLine, ...]  # costliest first
    samples: int  # steps


@fact
def zero_product_facts(
    rank: RankRecords, step: StepFacts, sources: Sources
) -> ZeroProductFacts | Missing | None:
    """What the sampled steps multiplied, or None with too few of them to tell."""
    told = (event for event in rank.of(ZeroProductsLineEvent) if event.nonzero_share > 0)
    seen = looked_at(rank.of(ZeroProductsLookEvent), told, rank, step, sources)
    if not isinstance(seen, LookedAt):
        return seen
    lines = [
        ZeroProductLine(
            at=line.at,
            share=line.share,
            rows=line.events[-1].rows,
            columns=line.events[-1].columns,
            nonzero_share=max(event.nonzero_share for event in line.events),
            one_hot=all(event.one_hot for event in line.events),
        )
        for line in seen.lines
    ]
    return ZeroProductFacts(share=seen.share, lines=tuple(lines), samples=len(seen.looks))
