"""Finds products with matrices that are mostly zero: ZeroProductFacts."""

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
from perfdoctor.wire.events.script import DeviceEvent
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
    looks = [event for event in rank.of(ZeroProductsLookEvent) if event.look is not None and event.step_s > 0]
    if len(looks) < FEW:
        return Missing(NO_VALUES) if rank.of(DeviceEvent) else None
    shares = sorted(share_of_look(event, event.step_s, step) for event in looks)
    found: dict[Location, list[ZeroProductsLineEvent]] = {}
    for event in rank.of(ZeroProductsLineEvent):
        at = location(event.at)
        if at is not None and event.nonzero_share > 0:
            found.setdefault(at, []).append(event)
    lines = [_line(sources.shown(at) or at, events, looks, step) for at, events in found.items()]
    return ZeroProductFacts(
        share=Estimate(shares[0], median(shares), shares[-1]),
        lines=tuple(sorted(lines, key=lambda line: -line.share)),
        samples=len(looks),
    )


def _line(
    at: Location,
    events: list[ZeroProductsLineEvent],
    looks: list[ZeroProductsLookEvent],
    step: StepFacts,
) -> ZeroProductLine:
    """One line in all sampled steps."""
    last = events[-1]
    return ZeroProductLine(
        at=at,
        share=share_of_line(events, looks, step),
        rows=last.rows,
        columns=last.columns,
        nonzero_share=max(event.nonzero_share for event in events),
        one_hot=all(event.one_hot for event in events),
    )
