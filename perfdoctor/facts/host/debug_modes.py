"""Tells which modes for finding errors were on while training, and which lines look for NaN."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Sources, covers, statements
from perfdoctor.facts.user_source.update_dependence import only_reported
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import GpuFacts, LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import AnomalyEvent, DebugModeEvent

MOST = 0.5  # of the samples: what is on for less than most steps was turned on for a while, on purpose
CHECKS = re.compile(r"\b(?:isnan|isinf|isfinite|assert_all_finite|check_numerics)\b")
RAISES = re.compile(r"\b(?:assert_all_finite|check_numerics)\b")  # which are tests by themselves
ENDS = (ast.Raise, ast.Assert)
EXITS = frozenset("exit _exit quit abort fail".split())
TELLS = re.compile(r"print|warn|error|exception|critical|info|debug|write|breakpoint|set_trace")
ENDING_TEXT = re.compile(r"(?:assert|raise)\b")  # of a line whose file is not to be had


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
    """Whether a line does nothing but tell of NaN or infinities, or end the run for them.

    A mask of missing values is needed, and so is a test that skips an update or chooses another value.
    """
    if line.at.statement is None or not CHECKS.search(line.at.statement):
        return False
    if RAISES.search(line.at.statement):
        return True
    scope = sources.file(line.at.file).scope(line.at.line)
    within = statements(scope.body) if scope is not None else ()
    node = next((each for each in within if covers(each, line.at.line)), None)  # what a line begins
    if node is None:
        return ENDING_TEXT.match(line.at.statement) is not None
    if hasattr(node, "body"):
        return isinstance(node, ast.If) and _only_tells(node.body) and _only_tells(node.orelse)
    return isinstance(node, ENDS) or only_reported(sources, line.at)


def _only_tells(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end the run, whatever they do before, or do nothing but tell something."""
    return any(map(_ends, body)) or all(map(_tells, body))


def _ends(node: ast.stmt) -> bool:
    return isinstance(node, ENDS) or not EXITS.isdisjoint(_called(node))


def _tells(node: ast.stmt) -> bool:
    """Whether a statement only tells something; a compound one may go through what it tells of."""
    if isinstance(node, (ast.If, ast.For, ast.With)):
        return _only_tells(node.body) and _only_tells(getattr(node, "orelse", ()))
    return isinstance(node, ast.Pass) or any(TELLS.search(name) for name in _called(node))


def _called(node: ast.stmt) -> list[str]:
    """What a statement calls that is nothing but a call."""
    call = node.value if isinstance(node, ast.Expr) else None
    return [called_name(call)] if isinstance(call, ast.Call) else []
