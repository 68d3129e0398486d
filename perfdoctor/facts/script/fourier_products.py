"""Finds Fourier transforms that are done by products with dense kernels: FourierProductFacts."""

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
from perfdoctor.wire.events.fourier_products import FourierProductsLineEvent, FourierProductsLookEvent


@dataclass(frozen=True)
class FourierProductLine:
    """A line that multiplies by the rows of a Fourier transform."""

    at: Location
    share: float  # of a sampled step, with backward; the median
    function: str  # the costliest
    taps: int  # samples that each row takes
    rows: int
    hop: int  # samples from one frame to the next; 0: a product of matrices


@dataclass(frozen=True)
class FourierProductFacts:
    """What Fourier transforms by dense products take of a step."""

    share: Estimate  # of a sampled step, backward included: the least, the median and the largest
    operations_left: float  # share of their operations that a fast transform has
    lines: tuple[FourierProductLine, ...]  # costliest first
    samples: int  # steps


@fact
def fourier_product_facts(
    rank: RankRecords, step: StepFacts, sources: Sources
) -> FourierProductFacts | Missing | None:
    """What the sampled steps multiplied by Fourier rows, or None with too few of them to tell."""
    told = (event for event in rank.of(FourierProductsLineEvent) if event.taps > 0 and event.rows > 0)
    seen = looked_at(rank.of(FourierProductsLookEvent), told, rank, step, sources)
    if not isinstance(seen, LookedAt):
        return seen
    lines = [
        FourierProductLine(
            at=line.at,
            share=line.share,
            function=next(iter(line.events[-1].names), ""),
            taps=line.events[-1].taps,
            rows=line.events[-1].rows,
            hop=line.events[-1].hop,
        )
        for line in seen.lines
    ]
    return FourierProductFacts(
        share=seen.share,
        operations_left=median(look.operations_left for look in seen.looks),
        lines=tuple(lines),
        samples=len(seen.looks),
    )
