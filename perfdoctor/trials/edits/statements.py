"""Writes statements of their own into a script: behind its imports, or around one that is there."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TypeGuard

from perfdoctor.facts.user_source.parse import Function
from perfdoctor.trials.edits.bindings import Target
from perfdoctor.trials.edits.models import MODELS
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit, holds
from perfdoctor.tweaks import Statement

LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPOUND = (*LOOPS, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match, ast.ClassDef)
MAKES_FUNCTIONS = (ast.Lambda, ast.GeneratorExp, ast.Yield, ast.YieldFrom)  # that run when it is over


def behind_imports(script: ScriptText, wanted: Statement, now: object) -> list[TextEdit]:
    """The edit that adds a statement on torch there. Raises ByHand where it would not stand, or not act."""
    text = wanted.written(now)
    own = text.partition(" = ")[0].partition("(")[0].rpartition(".")[2]
    names = {own, *wanted.rivals}
    at = next((node.lineno for node in ast.walk(script.tree) if _is_named(node, names)), None)
    if at is not None:
        raise ByHand(f"line {at} of {script.path.name} sets it as well: {text}")
    imports = script.imports_of_torch()
    script.check_torch(imports[0].lineno if imports else 1, f"add {text}")
    last = script.last_import(imports[0])
    line = last.end_lineno or last.lineno
    if any(node.lineno == line and node is not last for node in script.tree.body):
        raise ByHand(f"line {line} of {script.path.name} goes on behind an import: add {text}")
    end = script.line_end(line)
    return [TextEdit(end, end, f"{script.newline}{script.newline}{text}")]


def _is_named(node: ast.AST, names: Collection[str]) -> TypeGuard[ast.expr]:
    """Whether it is one of these names, or an attribute that is."""
    return (isinstance(node, ast.Attribute) and node.attr in names) or (
        isinstance(node, ast.Name) and node.id in names
    )


def around(script: ScriptText, line: int, context: str) -> list[TextEdit]:
    """The edits that put the statement of a line below a `with` on torch. Raises ByHand.

    The trial has seen passes in eval mode go unused by backward, not those in train mode, and not what stands
    beside them. So whenever the statement runs, what it calls has to be in eval mode by the function that
    holds it: a helper that others call in eval mode, or that evaluates on one branch, may train, too.
    """
    below = f"put what only evaluates below `with {context}:`"
    scope = script.scope(line)
    script.check_torch(line, below)
    evaluated = _in_eval_mode(script, scope, line)
    if not evaluated:
        raise ByHand(f"what line {line} does is put into eval mode elsewhere, or not always: {below}")
    statement = simple_statement(script, line, below)
    if evaluated.isdisjoint(_said(statement)):
        raise ByHand(f"line {line} does not name what is put into eval mode: {below}")
    called = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    other = next(
        (each for each in called if script.name(each) in MODELS and evaluated.isdisjoint(_said(each))), None
    )
    if other is not None:
        raise ByHand(f"line {line} calls {ast.unparse(other)} as well, which may train: {below}")
    return indented(script, statement, context)


def _said(node: ast.AST) -> set[str]:
    """The names, and attributes, that a node holds."""
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, Target)}


def _in_eval_mode(script: ScriptText, scope: ast.AST, line: int) -> set[str]:
    """What a function has put into eval mode whenever it comes to a line."""
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call)]
    turns = [node for node in ast.walk(scope) if isinstance(node, LOOPS) and holds(node, line)]
    found: set[str] = set()
    for call in calls:
        names = _switched(script, call)
        if not (names and _evaluates(call) and call.lineno < line and _is_always_done(script, call, line)):
            continue
        later = (
            other
            for other in calls
            if _trains(other) and names & _switched(script, other) and other.lineno > call.lineno
        )
        inner = [turn for turn in turns if not holds(turn, call.lineno)]  # which come back to the line
        if not any(
            other.lineno < line or any(holds(turn, other.lineno) for turn in inner) for other in later
        ):
            found |= names
    return found


def _is_always_done(script: ScriptText, call: ast.Call, line: int) -> bool:
    """Whether a line is reached only by way of a call that stands before it."""
    statement = script.statement_of(call)
    within = script.around(call)
    parts = within[within.index(statement) :]
    return any(holds(each, line) for each in script.block(statement)) and not any(
        isinstance(part, (ast.IfExp, ast.BoolOp, ast.Lambda, *COMPOUND)) for part in parts
    )


def _switched(script: ScriptText, call: ast.Call) -> set[str]:
    """What a call such as `net = Net().to(device).eval()` puts into a mode, by its names."""
    statement = script.statement_of(call)
    targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is call else []
    node: ast.expr = call
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return {ast.unparse(each) for each in (node, *targets) if isinstance(each, Target)}


def simple_statement(script: ScriptText, line: int, below: str) -> ast.stmt:
    """The one statement of a line that runs when it is reached. Raises ByHand, saying what is to be done."""
    held = [
        node
        for node in ast.walk(script.scope(line))
        if isinstance(node, ast.stmt) and not isinstance(node, (*COMPOUND, Function)) and holds(node, line)
    ]
    if len(held) != 1 or any(isinstance(node, MAKES_FUNCTIONS) for node in ast.walk(held[0])):
        raise ByHand(f"line {line} is no statement that is over at its end: {below}")
    return held[0]


def indented(script: ScriptText, node: ast.stmt, context: str) -> list[TextEdit]:
    """A statement below a `with`, one step further in. Raises ByHand."""
    first, last = node.lineno, node.end_lineno or node.lineno
    if not script.is_alone(node) or script.spans_lines(first, last):
        raise ByHand(f"line {first} cannot be indented as it is: put it below `with {context}:`")
    begin, inside = script.begin(node), script.newline + script.indent(first) + script.step(first)
    return [TextEdit(begin, begin, inside, context), *further_in(script, first, last)]


def further_in(script: ScriptText, first: int, last: int) -> list[TextEdit]:
    """The lines behind a first one up to a last one, one step further in."""
    lines = (line for line in range(first + 1, last + 1) if not script.is_blank(line))
    return [TextEdit(at, at, script.step(first)) for at in map(script.begin_of_line, lines)]


def _trains(call: ast.Call) -> bool:
    """`model.train()`, or with a mode that does not show."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "train" and not _evaluates(call)


def _evaluates(call: ast.Call) -> bool:
    """`model.eval()`, `model.train(False)`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    off = len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value is False
    return (call.func.attr == "eval" and not call.args) or (call.func.attr == "train" and off)
