"""Writes statements of their own into a script: behind its imports, or around what it does at a line."""

from __future__ import annotations

import ast
import re

from perfdoctor.facts.user_source.parse import Function
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit

# Names of what trains, in which no gradients would stop it; but `model.train()` is a switch.
TRAINS = re.compile(
    r"(?<!val_)(?<!eval_)(?<!test_)(?<!validation_)step|backward|train|fit|optim|grad$", re.IGNORECASE
)
SWITCHES = frozenset(("train", "no_grad", "enable_grad", "set_grad_enabled"))


def behind_imports(script: ScriptText, text: str) -> list[TextEdit]:
    """The edit that adds a statement on torch there. Raises ByHand where it would not stand, or not act."""
    at = _set_elsewhere(script, text)
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


def _set_elsewhere(script: ScriptText, text: str) -> int | None:
    """The line that sets the same, which would win."""
    statement = ast.parse(text).body[0]
    if isinstance(statement, ast.Assign):
        wanted = ast.unparse(statement.targets[0]).rpartition("backends.")[2]
        for node in ast.walk(script.tree):
            if isinstance(node, ast.Assign) and any(
                ast.unparse(each).endswith(wanted) for each in node.targets
            ):
                return node.lineno
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = script.name(statement.value.func)
        for node in ast.walk(script.tree):
            if isinstance(node, ast.Call) and script.name(node.func) == called:
                return node.lineno
    return None


def around(script: ScriptText, line: int, context: str) -> list[TextEdit]:
    """The edits that put what evaluates at a line into a context on torch. Raises ByHand.

    The function or the script around it must call `eval()` itself before: a helper that others call in eval
    mode may be called in training, too. The whole function is decorated where nothing in it trains and it has
    no other decorator; else the innermost loop goes below a `with`, or the statement.
    """
    below = f"put what only evaluates below `with {context}:`"
    scope = script.scope(line)
    if not script.knows_torch:
        raise ByHand(f"{script.path.name} does not begin with `import torch`: {below}")
    if not any(
        _evaluates(node) and node.lineno < line for node in ast.walk(scope) if isinstance(node, ast.Call)
    ):
        raise ByHand(f"what line {line} does is put into eval mode elsewhere: {below}")
    if isinstance(scope, ast.FunctionDef) and not (
        scope.decorator_list or _trains(scope) or _hands_on(scope)
    ):
        begin = script.begin_of_line(scope.lineno)
        return [TextEdit(begin, begin, f"{script.indent(scope.lineno)}@{context}{script.newline}")]
    held = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.stmt) and _holds(node, line) and node is not scope
    ]
    loops = [node for node in held if isinstance(node, (ast.For, ast.While))]
    chosen = max(loops or held, key=lambda node: node.lineno, default=None)
    if chosen is None or _trains(chosen) or isinstance(chosen, (ast.AsyncFor, *Function.__args__)):
        raise ByHand(f"line {line} lies in code that trains: {below}")
    return _indented(script, chosen, context)


def _indented(script: ScriptText, node: ast.stmt, context: str) -> list[TextEdit]:
    """A statement below a `with`, one step further in."""
    first, last = node.lineno, node.end_lineno or node.lineno
    indent = script.indent(first)
    shared = script.begin(node) != script.begin_of_line(first) + len(indent) or script.says_more(
        script.end(node)
    )
    if script.spans_lines(first, last) or shared:
        raise ByHand(f"line {first} cannot be indented as it is: put it below `with {context}:`")
    body = getattr(node, "body", None)
    step = script.indent(body[0].lineno)[len(indent) :] if body and body[0].lineno > first else "    "
    lines = [line for line in range(first, last + 1) if not script.is_blank(line)]
    begins = [script.begin_of_line(line) for line in lines]
    head = f"{indent}with {context}:{script.newline}"
    return [TextEdit(at, at, (head if at == begins[0] else "") + step) for at in begins]


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _evaluates(call: ast.Call) -> bool:
    """`model.eval()`, `model.train(False)`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    off = len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value is False
    return call.func.attr == "eval" or (call.func.attr == "train" and off)


def _trains(node: ast.stmt) -> bool:
    return any(_may_train(call) for call in ast.walk(node) if isinstance(call, ast.Call))


def _may_train(call: ast.Call) -> bool:
    """By its name: `loss.backward()`, `trainer.fit(model)`, `train(model)`; not `model.train()`, a switch."""
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    known = [each for each in call.args if isinstance(each, ast.Constant)]
    switch = isinstance(func, ast.Attribute) and name in SWITCHES and len(known) == len(call.args)
    return bool(TRAINS.search(name)) and not switch


def _hands_on(function: ast.FunctionDef) -> bool:
    """Whether it makes functions, or is left before it is done: a decorator would not hold there."""
    inner = [node for node in ast.walk(function) if node is not function]
    return any(isinstance(node, (*Function.__args__, ast.Lambda, ast.Yield, ast.YieldFrom)) for node in inner)
