"""The statements of a script that bind a name, or set an attribute, and to what."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from perfdoctor.facts.user_source.origins import parameters
from perfdoctor.facts.user_source.parse import COMPREHENSIONS
from perfdoctor.trials.edits.script_text import ScriptText

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
Target = ast.Name | ast.Attribute

ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
PREPARE = "prepare"  # of accelerate: returns what it is given, ready for its devices


def bound_in(script: ScriptText, scope: ast.AST, wanted: Target) -> list[ast.stmt]:
    """The statements of a scope that bind a name, or set an attribute of any object, in their order."""
    found = {id(each): each for each in _binding(script, scope, wanted)}
    return sorted(found.values(), key=lambda each: (each.lineno, each.col_offset))


def _binding(script: ScriptText, scope: ast.AST, wanted: Target) -> Iterator[ast.stmt]:
    for node in ast.walk(scope):
        if isinstance(wanted, ast.Name) and (node is scope or _scope(script, node) is not scope):
            continue
        if isinstance(node, Target):
            binds = is_that(node, wanted) and not isinstance(node.ctx, ast.Load)
        else:
            names = (getattr(node, "name", None), getattr(node, "asname", None), *getattr(node, "names", ()))
            binds = isinstance(wanted, ast.Name) and wanted.id in names
        if binds:
            yield script.statement_of(node)


def is_that(node: ast.AST, wanted: Target) -> bool:
    """Whether a node is that name, or that attribute, of whatever object."""
    if isinstance(wanted, ast.Name):
        return isinstance(node, ast.Name) and node.id == wanted.id
    return isinstance(node, ast.Attribute) and node.attr == wanted.attr


def _scope(script: ScriptText, node: ast.AST) -> ast.AST:
    """The innermost scope around a node, which may be a class."""
    return next(
        each for each in reversed(script.around(node)) if isinstance(each, Scope | ast.ClassDef | ast.Lambda)
    )


def is_hidden(script: ScriptText, name: str, use: ast.AST) -> bool:
    """Whether a name may stand for something else where it is used than functions and the file bind it to."""
    if isinstance(_scope(script, use), ast.ClassDef):
        return True
    for each in script.around(use):
        if isinstance(each, ast.Lambda) and name in parameters(each):
            return True
        if isinstance(each, COMPREHENSIONS):
            targets = (part for one in each.generators for part in ast.walk(one.target))
            if any(isinstance(part, ast.Name) and part.id == name for part in targets):
                return True
    return any(
        isinstance(each, ast.Global | ast.Nonlocal) and name in each.names for each in ast.walk(script.tree)
    )


def pairs(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement sets, and to what; also in `a, b = x, y`, and `a, b = accelerator.prepare(x, y)`."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Tuple):
            yield target, value
            return
        parts = _parts(value)
        starred = any(isinstance(each, ast.Starred) for each in (*parts, *target.elts))
        if len(parts) == len(target.elts) and not starred:
            yield from zip(target.elts, parts, strict=True)


def preparer(statement: ast.stmt) -> ast.expr | None:
    """What `prepare` is called on where a statement sets several names by it."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == PREPARE:
        return value.func.value
    return None


def _parts(value: ast.expr) -> Sequence[ast.expr]:
    """The values of several targets, one by one."""
    if isinstance(value, ast.Call):
        return value.args if isinstance(value.func, ast.Attribute) and value.func.attr == PREPARE else ()
    return value.elts if isinstance(value, ast.Tuple) else ()
