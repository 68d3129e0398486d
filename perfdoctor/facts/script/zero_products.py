"""Finds products with matrices that are mostly zero: ZeroProductFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.script import DeviceEvent
from perfdoctor.wire.events.zero_products import ZeroProductsLineEvent, ZeroProductsLookEvent

FEW = 2  # sampled steps: one alone may have been odd


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
    """What the sampled steps multiplied, or None with too few of them to tell.

    A call that waits for Python's other threads takes longer than the product in it; the phases of the other
    steps bound what it can be.
    """
    looks = [event for event in rank.of(ZeroProductsLookEvent) if event.look is not None and event.step_s > 0]
    if len(looks) < FEW:
        only = "the values of matrices are looked at only where training runs on the CPU"
        return Missing(only) if rank.of(DeviceEvent) else None
    shares = sorted(_bounded(event, event.step_s, step) for event in looks)
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


def _bounded(
    event: ZeroProductsLookEvent | ZeroProductsLineEvent | None, step_s: float, step: StepFacts
) -> float:
    """The share of a sampled step, forward and backward each no more than these phases usually have."""
    if event is None:
        return 0.0
    backward = step.share(Phase.BACKWARD)
    rest = max(0.0, 1.0 - backward - step.share(Phase.DATA_WAIT) - step.share(Phase.OPTIMIZER))
    return min(rest, event.seconds / step_s) + min(backward, event.backward_s / step_s)


def _line(
    at: Location,
    events: list[ZeroProductsLineEvent],
    looks: list[ZeroProductsLookEvent],
    step: StepFacts,
) -> ZeroProductLine:
    """One line in all sampled steps; it multiplied nothing in those that do not name it."""
    by_look = {event.look: event for event in events}
    last = events[-1]
    return ZeroProductLine(
        at=at,
        share=median(_bounded(by_look.get(look.look), look.step_s, step) for look in looks),
        rows=last.rows,
        columns=last.columns,
        nonzero_share=max(event.nonzero_share for event in events),
        one_hot=all(event.one_hot for event in events),
    )
