"""Writes statements of their own into a script: behind its imports, or around one that is there."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TypeGuard

from perfdoctor.facts.user_source.parse import Function
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
    last = script.last_import()
    if last is None or not script.knows_torch:
        raise ByHand(f"{script.path.name} does not begin with `import torch`: add {text}")
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

    The trial has seen what the statement makes go unused by backward, not what stands beside it. The
    function that holds it has to call `eval()` itself before: a helper that others call in eval mode may be
    called in training, too.
    """
    below = f"put what only evaluates below `with {context}:`"
    scope = script.scope(line)
    if not script.knows_torch:
        raise ByHand(f"{script.path.name} does not begin with `import torch`: {below}")
    calls = (node for node in ast.walk(scope) if isinstance(node, ast.Call))
    if not any(_evaluates(call) and call.lineno < line for call in calls):
        raise ByHand(f"what line {line} does is put into eval mode elsewhere: {below}")
    return indented(script, simple_statement(script, line, below), context)


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
    indent, step = script.indent(first), script.step(first)
    starts = [script.begin_of_line(line) for line in range(first, last + 1) if not script.is_blank(line)]
    head = f"{indent}with {context}:{script.newline}"
    return [TextEdit(at, at, (head if at == starts[0] else "") + step) for at in starts]


def _evaluates(call: ast.Call) -> bool:
    """`model.eval()`, `model.train(False)`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    off = len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value is False
    return (call.func.attr == "eval" and not call.args) or (call.func.attr == "train" and off)
