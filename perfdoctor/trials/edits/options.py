"""The options of a script that uses argparse: which one a value is read from, and its default."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from perfdoctor.facts.user_source.parse import Function
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit, holds

NO_VALUE = frozenset(("store_true", "store_false", "store_const", "count", "append", "append_const"))


def read_by(
    script: ScriptText, node: ast.expr, lines: Collection[int]
) -> tuple[ast.Call, frozenset[int]] | None:
    """The one `add_argument` that a value such as `args.num_workers` is read from, and the lines that do.

    None where the file does not show that it is read in calls of these lines alone: another default would
    change more than was tried, or nothing.
    """
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return None
    every = list(ast.walk(script.tree))
    if not _is_parsed(script, node.value.id, every):
        return None
    uses = [each for each in every if isinstance(each, ast.Attribute) and each.attr == node.attr]
    calls = [each for each in every if isinstance(each, ast.Call)]
    told = [_told(calls, use, lines) for use in uses]
    if any(isinstance(use.ctx, ast.Store) for use in uses) or not all(told):
        return None
    found = [
        call
        for call in calls
        if script.name(call.func) == "add_argument" and node.attr in _destinations(call)
    ]
    whole = len(found) == 1 and all(isinstance(each, ast.Constant) for each in found[0].args)
    if not whole or any(keyword.arg is None for keyword in found[0].keywords):
        return None
    return found[0], frozenset().union(*told)


def default(option: ast.Call, value: Any, typed: Sequence[str]) -> ast.expr | None:
    """The option's default, None where it has none. Raises ByHand where the command gives its value."""
    keywords = {keyword.arg: keyword.value for keyword in option.keywords}
    flags = list(_flags(option))
    action = keywords.get("action")
    if action is not None and not (isinstance(action, ast.Constant) and action.value not in NO_VALUE):
        raise ByHand(f"an option of the script sets it: {flags[-1]}")
    required = keywords.get("required")
    is_free = required is None or (isinstance(required, ast.Constant) and not required.value)
    if not is_free or any(_gives(word, flags) for word in typed):
        raise ByHand(f"the command sets it: type {flags[-1]} {value} there")
    return keywords.get("default")


def choices(script: ScriptText, option: ast.Call, value: Any) -> list[TextEdit]:
    """The edits by which the option may have a value, where it lists those that it may. Raises ByHand."""
    listed = next((keyword.value for keyword in option.keywords if keyword.arg == "choices"), None)
    parts = listed.elts if isinstance(listed, ast.List | ast.Tuple | ast.Set) else []
    known = [each.value for each in parts if isinstance(each, ast.Constant)]
    if listed is None or value in known:
        return []
    if not known or len(known) < len(parts):
        raise ByHand(f"line {option.lineno} may not allow the value {value!r}")
    end = script.end(parts[-1])
    return [TextEdit(end, end, f", {value!r}")]


def _gives(word: str, flags: Sequence[str]) -> bool:
    """Whether a word gives an option its value: whole, shortened as argparse allows it, or `-j4`."""
    name = word.partition("=")[0]
    return any(
        (flag.startswith(name) and len(name) > 2 and name.startswith("--"))
        if flag.startswith("--")
        else word.startswith(flag) and not word.startswith("--")
        for flag in flags
    )


def _flags(option: ast.Call) -> Iterator[str]:
    for each in option.args:
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.startswith("-"):
            yield each.value


def _destinations(option: ast.Call) -> set[str]:
    """What the parsed option may be called; nothing where no flag of it is known."""
    named = [keyword.value for keyword in option.keywords if keyword.arg == "dest"]
    flags = list(_flags(option))
    if named and flags:
        return {str(each.value) for each in named if isinstance(each, ast.Constant)}
    return {flag.lstrip("-").replace("-", "_") for flag in flags if flag.startswith("--")}


def _is_parsed(script: ScriptText, name: str, every: Sequence[ast.AST]) -> bool:
    """Whether a name is what argparse gave for the words of the command, wherever the file uses it.

    It is set by `parse_args()` alone, and handed on to functions of the file alone: what others do with it,
    no one sees here.
    """
    own = {node.name for node in every if isinstance(node, Function)}
    attributes = {id(node.value) for node in every if isinstance(node, ast.Attribute)}
    handed_on = {
        id(given)
        for call in every
        if isinstance(call, ast.Call) and (script.name(call.func) in own or script.name(call.func) == "print")
        for given in (*call.args, *(keyword.value for keyword in call.keywords))
    }
    uses = [node for node in every if isinstance(node, ast.Name) and node.id == name]
    loads = [node for node in uses if isinstance(node.ctx, ast.Load)]
    set_by = [
        node.value
        for node in every
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    parsed = len(set_by) == 1 == len(uses) - len(loads) and _parses(script, set_by[0])
    return parsed and all(id(node) in attributes or id(node) in handed_on for node in loads)


def _parses(script: ScriptText, node: ast.expr) -> bool:
    """`parser.parse_args()`: not of other words, and not where defaults are set in another place."""
    calls = [each for each in ast.walk(script.tree) if isinstance(each, ast.Call)]
    names = [script.name(call.func) for call in calls]
    if not isinstance(node, ast.Call) or node.args or node.keywords or "set_defaults" in names:
        return False
    return script.name(node.func) == "parse_args" and isinstance(node.func, ast.Attribute)


def _told(calls: Sequence[ast.Call], use: ast.Attribute, lines: Collection[int]) -> frozenset[int]:
    """Those of the lines that a call which reads an option is part of."""
    return frozenset(
        line
        for call in calls
        if any(each is use for each in ast.walk(call))
        for line in lines
        if holds(call, line)
    )
