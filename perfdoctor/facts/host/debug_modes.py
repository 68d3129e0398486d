"""Tells which modes for finding errors were on while training, and which lines look for NaN."""

from __future__ import annotations

import ast
import re

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.update_dependence import only_reported
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import GpuFacts, LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import AnomalyEvent, DebugModeEvent

MOST = 0.5  # of the samples: what is on for less than most steps was turned on for a while, on purpose
CHECKS = re.compile(r"\b(?:isnan|isinf|isfinite|assert_all_finite|check_numerics)\b")
RAISES = re.compile(r"\b(?:assert_all_finite|check_numerics)\b")  # which are tests by themselves
TESTS = (ast.If, ast.While, ast.Assert, ast.Raise)
ENDS = (ast.Raise, ast.Assert, ast.Break, ast.Continue, ast.Return)
TELLS = re.compile(
    r"print|warn|error|exception|critical|info|debug|write|exit|abort|breakpoint|set_trace|fail"
)
TESTING_TEXT = re.compile(r"(?:if|elif|while|assert|raise)\b")  # of a line whose file is not to be had


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
    lines = [line for phase, lines in phases.items() if phase is not Phase.DATA_WAIT for line in lines]
    busy = gpu.utilisation if isinstance(gpu, GpuFacts) else None
    checks = tuple(line for line in lines if is_check(line, sources))
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


def is_check(line: LineCost, sources: Sources) -> bool:
    """Whether a line tests or reports NaN or infinities; a mask of missing values does not."""
    if line.at.text is None or not CHECKS.search(line.at.text):
        return False
    node = sources.file(line.at.file).statement(line.at.line)
    if RAISES.search(line.at.text):
        return True
    if node is None:
        return TESTING_TEXT.match(line.at.text) is not None
    if isinstance(node, ast.If) and not _acts(node):
        return not only_reported(sources, line.at)  # it chooses what is shown
    return isinstance(node, TESTS) or only_reported(sources, line.at)


def _acts(test: ast.If) -> bool:
    """Whether something ends or is told where the test holds, or where it does not."""
    within = [inner for node in (*test.body, *test.orelse) for inner in ast.walk(node)]
    calls = [inner for inner in within if isinstance(inner, ast.Call)]
    return any(isinstance(inner, ENDS) for inner in within) or any(
        TELLS.search(called_name(call)) for call in calls
    )
