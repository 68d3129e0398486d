"""Finds names that a statement sets to plain numbers that a function of the user's took out of tensors."""

from __future__ import annotations

import ast

from perfdoctor.facts.user_source.loop_statements import unit_of
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Function, Listing, statements


def numbers_set(listing: Listing, node: ast.stmt) -> frozenset[str]:
    """The names that a statement sets to numbers that a function of this file took out of tensors.

    `action, chance = choose(state)` sets `action`, where `choose` returns `action.item(), chance`.
    """
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call)):
        return frozenset()
    name, target = called_name(node.value), node.targets[0]
    scopes = [scope for scope in listing.scopes if scope.name == name]
    given = [
        (scope, inner.value)
        for scope in scopes
        for inner in statements(scope.body)
        if isinstance(inner, ast.Return) and inner.value is not None
    ]
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    found = set()
    for index, one in enumerate(targets):
        parts = [(scope, _part(value, index, len(targets))) for scope, value in given]
        if isinstance(one, ast.Name) and given and all(_is_number(scope, part) for scope, part in parts):
            found.add(one.id)
    return frozenset(found)


def _part(value: ast.expr, index: int, of: int) -> ast.expr | None:
    """What a function returns for one of several names; None where that is not told."""
    if of == 1:
        return value
    return value.elts[index] if isinstance(value, ast.Tuple) and len(value.elts) == of else None


def _is_number(scope: Function, value: ast.expr | None) -> bool:
    """Whether a function's result, or the name that it returns, was taken out of a tensor."""
    if isinstance(value, ast.Name):
        setting = [unit for node in statements(scope.body) if value.id in (unit := unit_of(node)).sets]
        return bool(setting) and setting[-1].gives_numbers
    return value is not None and unit_of(ast.Expr(value)).gives_numbers
