"""Which modes for finding errors were on while training: DebugFacts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfdoctor.analysis.frames import parse
from perfdoctor.analysis.records import location, number
from perfdoctor.analysis.source import Sources
from perfdoctor.model import LineCost, Location, Phase, StackFacts
from perfdoctor.recorded import RankRecords

MOST = 0.5  # of the looks: what is on for less than most steps was turned on for a while, on purpose
ENOUGH = 20  # samples of forward: fewer tell no share
TRACEBACKS = re.compile(r"[/\\](?:traceback|linecache)\.py$")
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
    tracing: float | None = (
        None  # share of forward in which tracebacks are kept; None where too little was seen
    )


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
    return DebugFacts(modes, checks, busy, _tracing(records)) if modes or checks else None


def _tracing(records: RankRecords) -> float | None:
    """The share of forward that anomaly detection spends on tracebacks, one for each operation.

    Backward looks for NaN in C++, once for each operation as well: no stack tells how long.
    """
    forward = traced = 0
    for (label, *names), count in records.stacks:
        frames = [frame for name in names if (frame := parse(name)) is not None] if label == "main" else []
        phases = [frame.phase for frame in frames if frame.phase is not None]
        if phases and phases[-1] is Phase.FORWARD:
            forward += count
            traced += count * any(TRACEBACKS.search(frame.file) for frame in frames)
    return traced / forward if forward >= ENOUGH else None


def is_check(line: LineCost) -> bool:
    """Whether a line looks for NaN or infinities."""
    return line.at.text is not None and CHECKS.search(line.at.text) is not None
