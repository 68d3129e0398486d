"""Writes statements of their own into a script: behind its imports, or around what it does at a line."""

from __future__ import annotations

import ast

from perfdoctor.facts.user_source.parse import Function
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit

TRAINS = frozenset(("backward", "step"))  # calls of what trains: no gradients would stop it


def behind_imports(script: ScriptText, text: str) -> list[TextEdit]:
    """The edit that adds a statement on torch there. Raises ByHand where torch has another name there."""
    last: ast.stmt | None = None
    known = False
    for node in script.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            last = node
            known = known or any(
                isinstance(node, ast.Import)
                and alias.name.partition(".")[0] == "torch"
                and alias.asname is None
                for alias in node.names
            )
        elif not _may_come_first(node):
            break
    if last is None or not known:
        raise ByHand(f"{script.path.name} does not begin with `import torch`: add {text}")
    end = script.line_end(last.end_lineno or last.lineno)
    return [TextEdit(end, end, f"{script.newline}{script.newline}{text}")]


def _may_come_first(node: ast.stmt) -> bool:
    """A text that documents the file, or imports that are tried."""
    documents = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return documents or isinstance(node, (ast.Try, ast.If))


def around(script: ScriptText, line: int, context: str) -> list[TextEdit]:
    """The edits that put the function of a line into a context, or the loop around the line. Raises ByHand.

    Neither may train: of a function that does, the outermost loop around the line that does not is taken.
    """
    holding = [node for node in ast.walk(script.tree) if isinstance(node, ast.stmt) and _holds(node, line)]
    functions = [node for node in holding if isinstance(node, Function)]
    inner = max(functions, key=lambda node: node.lineno, default=None)
    if inner is not None and not _trains(inner):
        first = min([inner.lineno, *(each.lineno for each in inner.decorator_list)])
        begin = script.begin_of_line(first)
        return [TextEdit(begin, begin, f"{script.indent(first)}@{context}{script.newline}")]
    loops = [
        node
        for node in holding
        if isinstance(node, (ast.For, ast.While))
        and not _trains(node)
        and (inner is None or node.lineno > inner.lineno)
    ]
    if not loops:
        raise ByHand(f"line {line} lies in code that trains: put what only evaluates below `with {context}:`")
    return _indented(script, min(loops, key=lambda node: node.lineno), context)


def _indented(script: ScriptText, loop: ast.For | ast.While, context: str) -> list[TextEdit]:
    """The loop below a `with`, one step further in."""
    first, last = loop.lineno, loop.end_lineno or loop.lineno
    if script.spans_lines(first, last):
        raise ByHand(f"the loop of line {first} holds texts of several lines: put it below `with {context}:`")
    indent = script.indent(first)
    step = script.indent(loop.body[0].lineno)[len(indent) :] or "    "
    lines = [line for line in range(first, last + 1) if not script.is_blank(line)]
    begins = [script.begin_of_line(line) for line in lines]
    head = f"{indent}with {context}:{script.newline}"
    return [TextEdit(at, at, (head if at == begins[0] else "") + step) for at in begins]


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _trains(node: ast.stmt) -> bool:
    calls = (inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr in TRAINS for called in calls)
