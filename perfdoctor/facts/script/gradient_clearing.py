"""Tells how the script clears its gradients: GradientClearingFacts and GradientZeroingFacts."""

from __future__ import annotations

import re

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.running_totals import latest
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import GradientClearingEvent, ZeroGradEvent

CLEARED_BEHIND = re.compile(r"\.(?:zero_|fill_)\(")  # `p.grad.data.zero_()` leaves no trace on the gradient


@dataclass(frozen=True)
class GradientClearingFacts:
    """The optimizer whose gradients were found uncleared most often, at the sampled updates."""

    kept: int  # times its gradient still held what the step before had left in it
    cleared: int
    backward: Location | None
    update: Location | None
    doubtful: bool = False  # on a device values are not read, and the script has a way around


@dataclass(frozen=True)
class GradientZeroingFacts:
    """Calls of `zero_grad` that set gradients to zero where they could drop them."""

    calls_per_step: float
    seconds_per_step: float
    at: Location | None


@fact
def gradient_clearing_facts(rank: RankRecords, sources: Sources) -> GradientClearingFacts | None:
    """What was seen of gradients between updates, or None where no optimizer was sampled."""
    last = {entry.optimizer: entry for entry in rank.of(GradientClearingEvent)}
    if not last:
        return None
    entry = max(last.values(), key=lambda entry: entry.kept - entry.cleared)
    lines = entry.lines or []
    places = [sources.shown(location(line)) for line in lines]
    backward, update = places if len(places) == 2 else (None, None)
    files = {place.file for place in places if place is not None}
    doubtful = not entry.by_value and any(
        CLEARED_BEHIND.search(text) for file in files for text in sources.file(file).lines
    )
    return GradientClearingFacts(entry.kept, entry.cleared, backward, update, doubtful)


@fact
def gradient_zeroing_facts(
    rank: RankRecords, span: MeasuredSpan, sources: Sources
) -> GradientZeroingFacts | None:
    """What setting gradients to zero took from the steps, or None where none was."""
    totals = latest(rank.of(ZeroGradEvent), span)
    if totals is None:
        return None
    total, steps = totals
    return GradientZeroingFacts(
        total.calls / steps,
        total.seconds / steps,
        sources.shown(location(total.at)),
    )
