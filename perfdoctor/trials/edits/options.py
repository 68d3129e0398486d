"""The options of a script that uses argparse: which one a value is read from, and its default."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from perfdoctor.trials.edits.script_text import ByHand, ScriptText

NO_VALUE = frozenset(("store_true", "store_false", "store_const", "count", "append", "append_const"))
PARSING = ("parse_args", "parse_known_args")
USUAL_NAMES = frozenset(("args", "opt", "opts", "options", "flags"))  # of what is parsed, as a parameter


def read_by(script: ScriptText, node: ast.expr, lines: Collection[int]) -> ast.Call | None:
    """The one `add_argument` that a value such as `args.num_workers` is read from.

    None where it is something else, is set anew, or is read in other lines than these, too: then another
    default would change more than was tried.
    """
    if not isinstance(node, ast.Attribute) or not _is_parsed(script, node.value):
        return None
    every = list(ast.walk(script.tree))
    uses = [each for each in every if isinstance(each, ast.Attribute) and each.attr == node.attr]
    if any(isinstance(use.ctx, ast.Store) for use in uses):
        return None
    calls = [each for each in every if isinstance(each, ast.Call)]
    if any(script.name(call.func) == "set_defaults" for call in calls):
        return None
    if not all(_in_one_of(calls, use, lines) for use in uses):
        return None
    found = [
        call
        for call in calls
        if script.name(call.func) == "add_argument" and node.attr in _destinations(call)
    ]
    return found[0] if len(found) == 1 else None


def default(option: ast.Call, value: Any, typed: Sequence[str]) -> ast.expr | None:
    """The option's default, None where it has none. Raises ByHand where the command gives its value."""
    keywords = {keyword.arg: keyword.value for keyword in option.keywords}
    flags = list(_flags(option))
    action = keywords.get("action")
    if action is not None and not (isinstance(action, ast.Constant) and action.value not in NO_VALUE):
        raise ByHand(f"an option of the script sets it: {flags[-1]}")
    if "required" in keywords or any(_gives(word, flags) for word in typed):
        raise ByHand(f"the command sets it: type {flags[-1]} {value} there")
    return keywords.get("default")


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
    """What the parsed option may be called."""
    named = [keyword.value for keyword in option.keywords if keyword.arg == "dest"]
    if named:
        return {str(each.value) for each in named if isinstance(each, ast.Constant)}
    return {flag.lstrip("-").replace("-", "_") for flag in _flags(option) if flag.startswith("--")}


def _is_parsed(script: ScriptText, node: ast.expr) -> bool:
    """Whether a name, or an attribute of an object, is what argparse gave for the words of the command."""
    calls = [each for each in ast.walk(script.tree) if isinstance(each, ast.Call)]
    parsing = [
        call for call in calls if script.name(call.func) in PARSING and isinstance(call.func, ast.Attribute)
    ]
    if not parsing or any(call.args or call.keywords for call in parsing):
        return False  # of other words
    if isinstance(node, ast.Call):
        return node in parsing
    return script.name(node) in USUAL_NAMES | {
        target.id
        for each in ast.walk(script.tree)
        if isinstance(each, ast.Assign) and each.value in parsing
        for target in each.targets
        if isinstance(target, ast.Name)
    }


def _in_one_of(calls: Sequence[ast.Call], use: ast.Attribute, lines: Collection[int]) -> bool:
    """Whether a use stands in a call that is part of one of these lines."""
    return any(
        call.lineno <= use.lineno <= (call.end_lineno or 0)
        and any(call.lineno <= line <= (call.end_lineno or 0) for line in lines)
        for call in calls
        if any(each is use for each in ast.walk(call))
    )
