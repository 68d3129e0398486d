"""Tells which names a statement sets, needs and changes: LoopStatement."""

from __future__ import annotations

import ast
from functools import lru_cache

from perfdoctor.facts.user_source.parse import Function, header, logs
from perfdoctor.model.dataclass import dataclass

TO_NUMBERS = {"item", "tolist", "numpy"}  # tensor methods that give what Python and NumPy work on


@dataclass(frozen=True)
class LoopStatement:
    """A statement, or the header of a compound one, with the names it sets and needs."""

    node: ast.stmt
    sets: frozenset[str]
    needs: frozenset[str]
    changes: frozenset[str]  # names it calls a method of as a statement: `rows.append(x)`
    leaves_graph: bool  # takes plain numbers out of a tensor


def items_set(node: ast.stmt) -> set[str]:
    """The names whose items a statement sets: `priorities[rows] = errors`."""
    stored = [
        inner
        for part in header(node)
        for inner in ast.walk(part)
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store)
    ]
    return {name for inner in stored if (name := base_of(inner))}


def attributes_read(node: ast.stmt) -> set[str]:
    """What a statement reads of objects: `agent.memory` of `agent.memory.sample(32)`."""
    nodes = [inner for part in header(node) for inner in ast.walk(part) if isinstance(inner, ast.Attribute)]
    return {name for inner in nodes if (name := _attribute(inner))}


def attributes_changed(node: ast.stmt) -> set[str]:
    """What a statement changes of objects, by a method or by items: `memory.priorities[rows] = gap`."""
    value = node.value if isinstance(node, ast.Expr) else None
    changed = [
        inner.value
        for part in header(node)
        for inner in ast.walk(part)
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store)
    ]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        changed.append(value.func.value)
    return {name for inner in changed if isinstance(inner, ast.Attribute) and (name := _attribute(inner))}


def _attribute(node: ast.Attribute) -> str | None:
    return f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else None


@lru_cache(maxsize=4096)  # several facts look at the same loops
def unit_of(node: ast.stmt) -> LoopStatement:
    """The names that a statement, or the header of a compound one, sets and needs."""
    sets: set[str] = set()
    needs: set[str] = set()
    parts = [node] if isinstance(node, Function) else header(node)
    for part in parts:
        for inner in ast.walk(part):
            _names(inner, sets, needs)
    if isinstance(node, ast.AugAssign):
        needs |= sets
    if isinstance(node, Function):
        sets = {node.name}
    changes = _changed(node)
    leaves = any(takes_numbers(inner) for part in parts for inner in ast.walk(part))
    return LoopStatement(node, frozenset(sets), frozenset(needs), frozenset(changes), leaves)


def takes_numbers(node: ast.AST) -> bool:
    """Whether a call takes what Python and NumPy work on out of a tensor."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TO_NUMBERS
    )


def _names(node: ast.AST, sets: set[str], needs: set[str]) -> None:
    if isinstance(node, ast.Name) and node.id != "self":
        (needs if isinstance(node.ctx, ast.Load) else sets).add(node.id)
    elif isinstance(node, ast.Attribute):
        if node.attr == "grad":
            needs.add(".grad")
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            (needs if isinstance(node.ctx, ast.Load) else sets).add(f"self.{node.attr}")
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        name = base_of(node)
        if name:  # `rows[i] = x` sets rows
            sets.add(name)


def _changed(node: ast.stmt) -> set[str]:
    """The name that a statement calls a method of: `rows.append(x)`, but not `bar.set_postfix(loss=x)`."""
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and not logs(node, node.value.func.attr)
    ):
        name = base_of(node.value.func.value)
        return {name} if name else set()
    return set()


def base_of(node: ast.expr) -> str | None:
    """`rows` of `rows[i][j]`, `self.rows` of `self.rows[i]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return None
