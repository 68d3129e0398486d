"""Tells loops whose turns need each other from those whose turns could be done at once.

`state = cell(state, x[t])` needs the turn before. `total = total + f(x[t])`, `out[t] = f(x[t])` and
`rows.append(f(x[t]))` do not: one operation on all of `x` gives the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.user_source.loop_statements import LoopStatement, unit_of
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import covers, statements

ADDING = (ast.Add, ast.Sub)
EXTREMES = frozenset("min max minimum maximum".split())


def recurs(loop: ast.stmt, line: int) -> bool:
    """Whether a line of a loop takes part in what one turn hands on to the next."""
    units = [unit_of(node) for node in statements(list(getattr(loop, "body", ())))]
    handed_on = set(_handed_on(units))
    wanted: set[LoopStatement] = set()
    grew = True
    while grew:
        reached = {unit for unit in units if _set(unit) & handed_on}
        grew = len(reached) > len(wanted)
        wanted = reached
        handed_on |= {name for unit in wanted for name in unit.needs}
    return any(covers(unit.node, line) for unit in wanted)


def _handed_on(units: list[LoopStatement]) -> Iterator[str]:
    """Names that a turn reads before it sets them, other than sums, extremes and what is filled in."""
    every = {name for unit in units for name in _set(unit)}
    known: set[str] = set()
    for unit in units:
        yield from (unit.needs & every) - known - set(_gathered(unit.node))
        known |= unit.sets


def _set(unit: LoopStatement) -> frozenset[str]:
    """The names that a statement sets, tensors that it changes in place included: `h.mul_(decay)`."""
    value = unit.node.value if isinstance(unit.node, ast.Expr) else None
    in_place = isinstance(value, ast.Call) and called_name(value).endswith("_")
    return unit.sets | unit.changes if in_place else unit.sets


def _gathered(node: ast.stmt) -> Iterator[str]:
    """Names that a statement only adds to, or fills in."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ADDING):
        to = node.target.value if isinstance(node.target, ast.Subscript) else node.target
        yield from set() if _names(to) & _names(node.value) else _names(node.target)
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            yield from _names(target.value) - _names(node.value) - _names(target.slice)
        elif isinstance(target, ast.Name) and _adds_to(target.id, node.value):
            yield target.id


def _adds_to(name: str, value: ast.expr) -> bool:
    """Whether a value is what the name held, with something added to it that does not depend on it."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ADDING):
        parts = [value.left, value.right]
    elif isinstance(value, ast.Call) and EXTREMES & {
        getattr(value.func, "attr", getattr(value.func, "id", ""))
    }:
        parts = list(value.args)
    else:
        return False
    others = [part for part in parts if not (isinstance(part, ast.Name) and part.id == name)]
    return len(others) == len(parts) - 1 and not any(name in _names(other) for other in others)


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
