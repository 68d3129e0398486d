"""Finds lines that run one small tensor operation at a time, in loops of many turns: TensorLoopFacts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfdoctor.facts.host.stack_costs import StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.loop_roles import LoopStatement, unit_of
from perfdoctor.facts.user_source.parse import LOOPS, Sources, statements
from perfdoctor.model.measured import LineCost, Phase, StackFacts, StepFacts, WindowFacts
from perfdoctor.model.missing import Missing

TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
DEEP = 2  # loops around a line, the training loop left out: of one alone, its turns have to be many
MANY = 16  # turns in a step: layers, heads, scales and parts of a loss are fewer
SUMS = (ast.Add, ast.Sub)
OPERATORS = (ast.Call, ast.BinOp, ast.Compare, ast.Subscript)  # what runs an operator at least


@dataclass(frozen=True)
class TensorLoopFacts:
    """Lines between the model and the loss that compute element by element, costliest first."""

    lines: tuple[LineCost, ...]


@fact
def tensor_loop_facts(
    stacks: StackFacts,
    sources: Sources,
    costs: StackCosts | Missing | None,
    step: StepFacts,
    window: WindowFacts | None,
) -> TensorLoopFacts | None:
    """Such lines, or None where there are none.

    A line counts if its result does not go into the next turn of its loop, but into a sum: what it does could
    be done for all turns at once.
    """
    anchors = {(line.at.file, line.at.line) for phase in TRAINING for line in stacks.phases.get(phase, ())}
    if isinstance(costs, StackCosts):
        anchors |= costs.anchors
    operator_s = _operator_s(step, window)
    lines = tuple(
        line
        for line in stacks.phases.get(Phase.OTHER, ())
        if line.kind == "compute"
        and not _calls_module(line)
        and _independent(line, anchors, sources, line.share * step.mean_s / operator_s if operator_s else 0.0)
    )
    return TensorLoopFacts(lines) if lines else None


def _operator_s(step: StepFacts, window: WindowFacts | None) -> float | None:
    """What an operator takes in the mean, large ones included; None where no window counted them."""
    calls = sum(operator.calls_per_step for operator in window.operators) if window is not None else 0.0
    return step.mean_s / calls if calls else None


def _calls_module(line: LineCost) -> bool:
    return line.leaf is not None and line.leaf.endswith("forward")


def _independent(line: LineCost, anchors: set[tuple[str, int]], sources: Sources, operators: float) -> bool:
    """Whether a line is in loops of many turns and does not use what the turn before left.

    `operators`: how many it runs in a step, if they are of the usual size.
    """
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
    if not inner_loops or unit_of(node).needs & _carried(inner_loops[-1]):
        return False
    written = sum(isinstance(part, OPERATORS) for part in ast.walk(node))
    return len(inner_loops) >= DEEP or operators >= MANY * max(1, written)


def _carried(loop: ast.stmt) -> set[str]:
    """Names that a turn of the loop reads before it sets them: they come from the turn before.

    A name that the loop only adds to is none of them: a sum over all turns is one call.
    """
    nodes = list(statements(list(getattr(loop, "body", ()))))
    summed = {name for node in nodes if (name := _added_to(node)) is not None}
    units = [unit_of(node) for node in nodes]
    read_elsewhere = {
        name
        for node, unit in zip(nodes, units, strict=True)
        for name in unit.needs & summed
        if _added_to(node) != name
    }
    every = {name for unit in units for name in unit.sets | unit.changes}
    return set(_early(units, every)) - (summed - read_elsewhere)


def _added_to(node: ast.AST) -> str | None:
    """The name in `name = name + ...` or `name += ...`, where nothing else of the line reads it."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and isinstance(node.op, SUMS):
        name, added = node.target.id, [node.value]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name, added = node.targets[0].id, list(_terms(node.value))
        first = added.pop(0)
        if not (isinstance(first, ast.Name) and first.id == name):
            return None
    else:
        return None
    inside = (part for term in added for part in ast.walk(term))
    return None if any(isinstance(part, ast.Name) and part.id == name for part in inside) else name


def _terms(value: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum, from the left."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, SUMS):
        yield from _terms(value.left)
        yield value.right
    else:
        yield value


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
