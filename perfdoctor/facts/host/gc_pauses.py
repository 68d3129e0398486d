"""Measures the pauses of Python's garbage collector: GcPauseFacts, from its running totals."""

from __future__ import annotations

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.running_totals import latest
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources, calls
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import GcPausesEvent

MOSTLY = 0.5  # of the time of full collections below one line: that line is why they run


@dataclass(frozen=True)
class GcPauseFacts:
    """Pauses of Python's garbage collector in the training thread."""

    per_step: float
    seconds_per_step: float
    full_per_step: float  # collections that look at every object there is
    full_seconds_per_step: float
    longest_s: float
    at: Location | None = None  # the user's line that asks for most of the full ones, if one does
    full: int | None = None  # how many full ones there were


@fact
def gc_pause_facts(rank: RankRecords, span: MeasuredSpan, sources: Sources) -> GcPauseFacts | None:
    """What the collector took from the steps, or None where it never ran."""
    totals = latest(rank.of(GcPausesEvent), span)
    if totals is None or not totals[0].count:
        return None
    total, steps = totals
    full_s = total.full_seconds
    at = sources.shown(location(total.at))
    node = sources.file(at.file).statement(at.line) if at is not None else None
    asks = node is not None and any(name == "collect" for _, name in calls(node))
    return GcPauseFacts(
        per_step=total.count / steps,
        seconds_per_step=total.seconds / steps,
        full_per_step=total.full / steps,
        full_seconds_per_step=full_s / steps,
        longest_s=total.longest_s,
        at=at if asks and total.at_seconds >= MOSTLY * full_s else None,
        full=total.full,
    )
