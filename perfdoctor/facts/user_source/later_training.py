"""Tells whether anything may still train after a line: what a loop leaves behind can matter to nothing else.

A function's end is no end of training: another call of it, as of one that trains an epoch, begins with what
the last one left. So it is followed to the only place that calls it and what comes after that, up to the
module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.user_source.effects import EffectsFinder
from perfdoctor.facts.user_source.known_calls import BACKWARDS
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import LOOPS, Function, covers, header, statements

CALLERS = 3  # functions up which a call, a value that is returned, or the loop around a line is followed
UPDATES = BACKWARDS | {"fit"}  # they train outside of a loop, too


def trains_after(
    finder: EffectsFinder,
    scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef,
    line: int,
    anchors: frozenset[int] = frozenset(),
    depth: int = 0,
) -> bool:
    """Whether an update may follow once a scope has run past a line; `anchors` are lines known to train.

    Weights that are restored, moved or frozen after the line make no update by themselves.
    """
    after = [node for node in statements(scope.body) if node.lineno > line]
    if any(_trains(finder, node, anchors) for node in after):
        return True
    if isinstance(scope, ast.Module):
        return False
    call = _only_call(finder, scope) if depth < CALLERS else None
    around = finder.file.listing.scope(call.lineno) if call is not None else None
    if call is None or around is None:
        return True
    return trains_after(finder, around, call.end_lineno or call.lineno, anchors, depth + 1)


def _trains(finder: EffectsFinder, node: ast.stmt, anchors: frozenset[int]) -> bool:
    """Whether a statement makes updates, all that is inside it included."""
    inside = list(statements([node])) if isinstance(node, LOOPS) else [node]
    if any(covers(one, line) for one in inside for line in anchors):
        return True
    if isinstance(node, LOOPS):
        return any(finder.of_statement(one).trains for one in inside)
    return any(_updates(call) or finder.trains_inside(call) for call in _calls(node))


def _updates(call: ast.Call) -> bool:
    """Whether a call trains by its name, as `model.train()`, which only sets a mode, does not."""
    on = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    name = called_name(call)
    return name in UPDATES or name == "learn" or (name == "train" and "trainer" in on.lower())


def _only_call(finder: EffectsFinder, function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.Call | None:
    """The only call of a function, where the file shows that it runs once; None where it may run again."""
    file, name = finder.file, function.name
    calls = [call for call in file.calls if called_name(call) == name]
    named = sum(name in {getattr(node, "id", None), getattr(node, "attr", None)} for node in file.nodes)
    if len(calls) != 1 or named != 1 or len(file.functions.get(name, ())) != 1:
        return None
    owner = next((one for one in file.classes.values() if function in one.body), None)
    inherits = owner is not None and any(getattr(base, "id", None) != "object" for base in owner.bases)
    pauses = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function))
    if inherits or pauses or isinstance(function, ast.AsyncFunctionDef):
        return None  # a base may call it; others go on training while it waits
    (call,) = calls
    listing = file.listing
    node = listing.statement(call.lineno)
    if node is None or listing.outermost_loop(call.lineno) or listing.comprehension(call.lineno):
        return None
    # `finetune(pretrain())` trains on
    later = any(
        isinstance(one, ast.Lambda) or (isinstance(one, ast.Call) and finder.trains_inside(one))
        for part in header(node)
        for one in ast.walk(part)
        if one is not call and any(inner is call for inner in ast.walk(one))
    )
    return None if later else call


def _calls(node: ast.stmt) -> Iterator[ast.Call]:
    if not isinstance(node, (*Function.__args__, ast.ClassDef)):
        for part in header(node):
            yield from (inner for inner in ast.walk(part) if isinstance(inner, ast.Call))
