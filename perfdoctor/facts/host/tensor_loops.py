"""Finds lines that run one small tensor operation at a time, in loops inside loops: TensorLoopFacts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.loop_roles import LoopStatement, unit_of
from perfdoctor.facts.user_source.parse import LOOPS, Sources, statements
from perfdoctor.model.measured import LineCost, Phase, StackFacts

TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
DEEP = 2  # loops around a line, the training loop left out: one loop alone is often a sequence, and needed


@dataclass(frozen=True)
class TensorLoopFacts:
    """Lines between the model and the loss that compute element by element, costliest first."""

    lines: tuple[LineCost, ...]


@fact
def tensor_loop_facts(stacks: StackFacts, sources: Sources) -> TensorLoopFacts | None:
    """Such lines, or None where there are none.

    A line counts if its result does not go into the next turn of its loop: what it does could be done for all
    turns at once.
    """
    anchors = {(line.at.file, line.at.line) for phase in TRAINING for line in stacks.phases.get(phase, ())}
    lines = tuple(
        line
        for line in stacks.phases.get(Phase.OTHER, ())
        if line.kind == "compute" and not _calls_module(line) and _independent(line, anchors, sources)
    )
    return TensorLoopFacts(lines) if lines else None


def _calls_module(line: LineCost) -> bool:
    return line.leaf is not None and line.leaf.endswith("forward")


def _independent(line: LineCost, anchors: set[tuple[str, int]], sources: Sources) -> bool:
    """Whether a line is deep inside loops and does not use what the turn before left."""
    listing = sources.file(line.at.file)
    scope = listing.scope(line.at.line)
    node = listing.statement(line.at.line)
    if scope is None or node is None:
        return False
    nested = [
        loop
        for loop in statements(scope.body)
        if isinstance(loop, LOOPS) and loop.lineno < line.at.line <= (loop.end_lineno or 0)
    ]
    trained = {number for file, number in anchors if file == line.at.file}
    inner_loops = [
        loop for loop in nested if not trained & set(range(loop.lineno, (loop.end_lineno or 0) + 1))
    ]
    return len(inner_loops) >= DEEP and not (unit_of(node).needs & _carried(inner_loops[-1]))


def _carried(loop: ast.stmt) -> set[str]:
    """Names that a turn of the loop reads before it sets them: they come from the turn before."""
    units = [unit_of(node) for node in statements(list(getattr(loop, "body", ())))]
    every = {name for unit in units for name in unit.sets | unit.changes}
    return set(_early(units, every))


def _early(units: list[LoopStatement], every: set[str]) -> Iterator[str]:
    """Of the names that the units set, those that are read first."""
    known: set[str] = set()
    for unit in units:
        yield from (unit.needs & every) - known
        known |= unit.sets


def shares(facts: TensorLoopFacts, seconds: Mapping[Phase, float], mean_s: float) -> tuple[float, float]:
    """(share of the step in such lines, share of the step that backward takes for them).

    Each small operation has its counterpart in backward: of that, they take what they take of going forward.
    """
    share = min(1.0, sum(line.share for line in facts.lines))
    if mean_s <= 0:
        return share, 0.0
    forward = max(seconds.get(Phase.FORWARD, 0.0) / mean_s, share)
    return share, seconds.get(Phase.BACKWARD, 0.0) / mean_s * share / forward if forward else 0.0
