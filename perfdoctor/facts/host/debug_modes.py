"""Tells which modes for finding errors were on while training, and which lines look for NaN."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import GpuFacts, LineCost, Location, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import AnomalyEvent, DebugModeEvent

MOST = 0.5  # of the samples: what is on for less than most steps was turned on for a while, on purpose
CHECKS = re.compile(r"\b(?:isnan|isinf|isfinite|assert_all_finite|check_numerics)\b")


@dataclass(frozen=True)
class DebugMode:
    """One mode that was on for most steps."""

    name: str  # anomaly | blocking | deterministic | profiler | sync
    share: float  # of the samples in which it was on
    at: Location | None  # the line that turned it on


@dataclass(frozen=True)
class DebugModeFacts:
    """What was on for most steps, and lines that look for NaN."""

    modes: tuple[DebugMode, ...] = ()
    checks: tuple[LineCost, ...] = ()
    device_busy: float | None = None  # share of the time, as its driver says; None without a device
    anomaly_s: tuple[float, float] | None = None  # per backward: keeping tracebacks, looking for NaN


@fact
def debug_mode_facts(
    rank: RankRecords, stacks: StackFacts | Missing, gpu: GpuFacts | Missing | None, sources: Sources
) -> DebugModeFacts | None:
    """The modes and checks of a run, or None where there were none."""
    last = {entry.mode: entry for entry in rank.of(DebugModeEvent)}
    modes = tuple(
        DebugMode(
            name,
            entry.seen / entry.looks,
            sources.shown(location(entry.at)),
        )
        for name, entry in sorted(last.items())
        if entry.seen > MOST * entry.looks > 0
    )
    phases = stacks.phases if isinstance(stacks, StackFacts) else {}
    lines = [line for lines in phases.values() for line in lines]
    busy = gpu.utilisation if isinstance(gpu, GpuFacts) else None
    checks = tuple(line for line in lines if is_check(line))
    return DebugModeFacts(modes, checks, busy, _anomaly(rank)) if modes or checks else None


def _anomaly(rank: RankRecords) -> tuple[float, float] | None:
    """What anomaly detection costs one backward: tracebacks as the graph is made, searching for NaN after."""
    weighed = rank.of(AnomalyEvent)
    if not weighed:
        return None
    last = weighed[-1]  # the first may be one of warm-up
    return (
        last.frames * last.frame_s,
        last.gradients * last.gradient_s,
    )


def is_check(line: LineCost) -> bool:
    """Whether a line looks for NaN or infinities."""
    return line.at.text is not None and CHECKS.search(line.at.text) is not None
