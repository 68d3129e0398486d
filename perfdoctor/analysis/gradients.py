"""How the script clears its gradients: ClearingFacts and ZeroingFacts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfdoctor.analysis.records import Window, location, number, whole
from perfdoctor.analysis.source import Sources
from perfdoctor.analysis.totals import latest
from perfdoctor.model import Location
from perfdoctor.recorded import RankRecords

CLEARED_BEHIND = re.compile(r"\.(?:zero_|fill_)\(")  # `p.grad.data.zero_()` leaves no trace on the gradient


@dataclass(frozen=True)
class ClearingFacts:
    """The optimizer whose gradients were found uncleared most often, at the updates that were looked at."""

    kept: int  # times its gradient still held what the step before had left in it
    cleared: int
    backward: Location | None
    update: Location | None
    doubtful: bool = False  # on a device values are not looked at, and the script has a way around


@dataclass(frozen=True)
class ZeroingFacts:
    """Calls of `zero_grad` that set gradients to zero where they could drop them."""

    calls_per_step: float
    seconds_per_step: float
    at: Location | None


def clearing_facts(records: RankRecords, sources: Sources) -> ClearingFacts | None:
    """What was seen of gradients between updates, or None where no optimizer was looked at."""
    last = {whole(entry.get("optimizer")) or 0: entry for entry in records.of("clearing")}
    if not last:
        return None
    entry = max(last.values(), key=lambda entry: number(entry.get("kept")) - number(entry.get("cleared")))
    lines = entry.get("lines") or []
    places = [sources.shown(location(line)) for line in lines]
    backward, update = places if len(places) == 2 else (None, None)
    files = {place.file for place in places if place is not None}
    doubtful = not entry.get("by_value") and any(
        CLEARED_BEHIND.search(text) for file in files for text in sources.file(file).lines
    )
    return ClearingFacts(
        whole(entry.get("kept")) or 0, whole(entry.get("cleared")) or 0, backward, update, doubtful
    )


def zeroing_facts(records: RankRecords, window: Window, sources: Sources) -> ZeroingFacts | None:
    """What setting gradients to zero took from the steps, or None where none was."""
    found = latest(records.of("zeroing"), window)
    if found is None:
        return None
    total, steps = found
    return ZeroingFacts(
        number(total.get("calls")) / steps,
        number(total.get("seconds")) / steps,
        sources.shown(location(total.get("at"))),
    )
