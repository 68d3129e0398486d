"""Which modes for finding errors were on while training: DebugFacts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfdoctor.analysis.records import location, number
from perfdoctor.analysis.source import Sources
from perfdoctor.model import LineCost, Location, StackFacts
from perfdoctor.recorded import RankRecords

MOST = 0.5  # of the looks: what is on for less than most steps was turned on for a while, on purpose
CHECKS = re.compile(r"\b(?:isnan|isinf|isfinite|assert_all_finite|check_numerics)\b")


@dataclass(frozen=True)
class DebugMode:
    """One mode that was on for most steps."""

    name: str  # anomaly | blocking | deterministic | profiler | sync
    share: float  # of the looks at which it was on
    at: Location | None  # the line that turned it on


@dataclass(frozen=True)
class DebugFacts:
    """What was on for most steps, and lines that look for NaN."""

    modes: tuple[DebugMode, ...] = ()
    checks: tuple[LineCost, ...] = ()
    device_busy: float | None = None  # share of the time, as its driver says; None without a device
    anomaly_s: tuple[float, float] | None = None  # per backward: keeping tracebacks, looking for NaN


def debug_facts(
    records: RankRecords, stacks: StackFacts | None, busy: float | None, sources: Sources
) -> DebugFacts | None:
    """The modes and checks of a run, or None where there were none."""
    last = {str(entry.get("mode")): entry for entry in records.of("debug")}
    modes = tuple(
        DebugMode(
            name,
            number(entry.get("seen")) / number(entry.get("looks")),
            sources.shown(location(entry.get("at"))),
        )
        for name, entry in sorted(last.items())
        if number(entry.get("seen")) > MOST * number(entry.get("looks")) > 0
    )
    lines = [line for lines in stacks.phases.values() for line in lines] if stacks is not None else []
    checks = tuple(line for line in lines if is_check(line))
    return DebugFacts(modes, checks, busy, _anomaly(records)) if modes or checks else None


def _anomaly(records: RankRecords) -> tuple[float, float] | None:
    """What anomaly detection costs one backward: tracebacks as the graph is made, looks for NaN after."""
    weighed = records.of("anomaly")
    if not weighed:
        return None
    last = weighed[-1]  # the first may be one of warm-up
    return (
        number(last.get("frames")) * number(last.get("frame_s")),
        number(last.get("gradients")) * number(last.get("gradient_s")),
    )


def is_check(line: LineCost) -> bool:
    """Whether a line looks for NaN or infinities."""
    return line.at.text is not None and CHECKS.search(line.at.text) is not None
