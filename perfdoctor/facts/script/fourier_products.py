"""Finds Fourier transforms that are done by products with dense kernels: FourierProductFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.looked_at import FEW, NO_VALUES, share_of_line, share_of_look
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.fourier_products import FourierProductsLineEvent, FourierProductsLookEvent
from perfdoctor.wire.events.script import DeviceEvent


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
    looks = [
        event for event in rank.of(FourierProductsLookEvent) if event.look is not None and event.step_s > 0
    ]
    if len(looks) < FEW:
        return Missing(NO_VALUES) if rank.of(DeviceEvent) else None
    shares = sorted(share_of_look(event, event.step_s, step) for event in looks)
    found: dict[Location, list[FourierProductsLineEvent]] = {}
    for event in rank.of(FourierProductsLineEvent):
        at = location(event.at)
        if at is not None and event.taps > 0 and event.rows > 0:
            found.setdefault(at, []).append(event)
    lines = [
        FourierProductLine(
            at=sources.shown(at) or at,
            share=share_of_line(events, looks, step),
            function=next(iter(events[-1].names), ""),
            taps=events[-1].taps,
            rows=events[-1].rows,
            hop=events[-1].hop,
        )
        for at, events in found.items()
    ]
    return FourierProductFacts(
        share=Estimate(shares[0], median(shares), shares[-1]),
        operations_left=median(event.operations_left for event in looks),
        lines=tuple(sorted(lines, key=lambda line: -line.share)),
        samples=len(looks),
    )
