"""Tells which name a statement only gathers results in."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

SUMS = (ast.Add, ast.Sub)


def gathers_in(node: ast.AST) -> str | None:
    """The name in `name += x`, `name = name + x`, `name[i] = x` or `name.append(x)`; x does not read it."""
    if isinstance(node, ast.Assign):
        target, value = node.targets[0], node.value
        first, *more = _terms(value)
        if isinstance(target, ast.Name):
            fits = bool(more) and isinstance(first, ast.Name) and first.id == target.id
            return _unless_read(target, more) if fits else None
        return (
            _unless_read(target.value, [target.slice, value]) if isinstance(target, ast.Subscript) else None
        )
    if isinstance(node, ast.AugAssign) and isinstance(node.op, SUMS):
        target = node.target
        if isinstance(target, ast.Subscript):
            return _unless_read(target.value, [target.slice, node.value])
        return _unless_read(target, [node.value])
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        if isinstance(function, ast.Attribute) and function.attr == "append":
            return _unless_read(function.value, node.value.args)
    return None


def _unless_read(target: ast.expr, others: Sequence[ast.expr]) -> str | None:
    """The name that the target is, unless the other parts of its line read it."""
    if not isinstance(target, ast.Name):
        return None
    parts = (part for other in others for part in ast.walk(other))
    return None if any(isinstance(part, ast.Name) and part.id == target.id for part in parts) else target.id


def _terms(value: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum, from the left."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, SUMS):
        yield from _terms(value.left)
        yield value.right
    else:
        yield value
