"""Running totals of the garbage collector become PauseFacts."""

from __future__ import annotations

from dataclasses import dataclass

from perfdoctor.analysis.records import Window, location, number
from perfdoctor.analysis.source import Sources, calls
from perfdoctor.analysis.totals import latest
from perfdoctor.model import Location
from perfdoctor.recorded import RankRecords

MOSTLY = 0.5  # of the time of full collections below one line: that line is why they run


@dataclass(frozen=True)
class PauseFacts:
    """Pauses of Python's garbage collector in the training thread."""

    per_step: float
    seconds_per_step: float
    full_per_step: float  # collections that look at every object there is
    full_seconds_per_step: float
    longest_s: float
    at: Location | None = None  # the user's line that asks for most of the full ones, if one does


def pause_facts(records: RankRecords, window: Window, sources: Sources) -> PauseFacts | None:
    """What the collector took from the steps, or None where it never ran."""
    found = latest(records.of("pauses"), window)
    if found is None or not number(found[0].get("count")):
        return None
    total, steps = found
    full_s = number(total.get("full_seconds"))
    at = sources.shown(location(total.get("at")))
    node = sources.file(at.file).statement(at.line) if at is not None else None
    asks = node is not None and any(name == "collect" for _, name in calls(node))
    return PauseFacts(
        per_step=number(total.get("count")) / steps,
        seconds_per_step=number(total.get("seconds")) / steps,
        full_per_step=number(total.get("full")) / steps,
        full_seconds_per_step=full_s / steps,
        longest_s=number(total.get("longest_s")),
        at=at if asks and number(total.get("at_seconds")) >= MOSTLY * full_s else None,
    )
