"""Sets an argument of a call as one would type it: at the call, or where its value comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.tweaks import Argument

TRAINING_ARGUMENTS = "TrainingArguments"  # as the names of transformers' end, each trainer's own as well
NO_VALUE = frozenset(("store_true", "store_false", "store_const", "count", "append", "append_const"))


def set_at(script: ScriptText, line: int, wanted: Argument, now: Any, typed: Sequence[str]) -> list[TextEdit]:
    """The edits that give a call at a line the argument. Raises ByHand.

    `now` is what the argument became, `typed` the words of the command, which may have given its value.
    """
    calls = [call for call in script.calls(line) if script.name(call.func) in wanted.calls]
    if len(calls) > 1 and not wanted.every:
        raise ByHand(f"line {line} calls {script.name(calls[0].func)} {len(calls)} times")
    if calls:
        name, value = wanted.named(now), wanted.value(now)
        return [edit for call in calls for edit in _set(script, call, name, value, wanted, typed)]
    if wanted.trainer is not None:
        every = [node for node in ast.walk(script.tree) if isinstance(node, ast.Call)]
        trainers = [node for node in every if script.name(node.func).endswith(TRAINING_ARGUMENTS)]
        if len(trainers) == 1:
            return _set(script, trainers[0], wanted.trainer, wanted.value(now), None, typed)
    raise ByHand(f"line {line} does not call {' or '.join(wanted.calls[:1])} itself")


def _set(
    script: ScriptText, call: ast.Call, name: str, value: Any, wanted: Argument | None, typed: Sequence[str]
) -> list[TextEdit]:
    given = next((keyword for keyword in call.keywords if keyword.arg == name), None)
    replaced = wanted.instead_of if wanted is not None else None
    other = (
        next((keyword for keyword in call.keywords if keyword.arg == replaced), None) if replaced else None
    )
    if other is not None and given is None:
        return [TextEdit(script.begin(other), script.end(other), f"{name}={value!r}")]
    if given is not None:
        return [_value(script, given.value, value, typed)]
    place = wanted.place if wanted is not None else None
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    if place is not None and len(call.args) > place and not starred:
        return [_value(script, call.args[place], value, typed)]
    packed = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if packed or starred:
        return [_in_packed(script, call, packed, name, value)]
    return [_added(script, call, f"{name}={value!r}")]


def _value(script: ScriptText, node: ast.expr, value: Any, typed: Sequence[str]) -> TextEdit:
    """Another value there, or as the default of the option that it is read from."""
    option = _option(script, node) if isinstance(node, ast.Attribute) else None
    if option is None or isinstance(node, ast.Constant):
        return TextEdit(script.begin(node), script.end(node), repr(value))
    flags = [
        each.value for each in option.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    spoken = next((word for word in typed if word.partition("=")[0] in flags), None)
    if spoken is not None:
        raise ByHand(f"the command sets it: type {flags[-1]} {value} there")
    keywords = {keyword.arg: keyword for keyword in option.keywords}
    action = keywords.get("action")
    if action is not None and isinstance(action.value, ast.Constant) and action.value.value in NO_VALUE:
        raise ByHand(f"an option of the script sets it: {flags[-1]}")
    if "default" in keywords:
        default = keywords["default"].value
        return TextEdit(script.begin(default), script.end(default), repr(value))
    return _added(script, option, f"default={value!r}")


def _option(script: ScriptText, node: ast.Attribute) -> ast.Call | None:
    """The one `add_argument` that an attribute such as `args.num_workers` is read from."""
    found = [
        call
        for call in ast.walk(script.tree)
        if isinstance(call, ast.Call)
        and script.name(call.func) == "add_argument"
        and node.attr in set(_destinations(call))
    ]
    return found[0] if len(found) == 1 else None


def _destinations(call: ast.Call) -> Iterator[str]:
    """What the parsed option may be called."""
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            yield str(keyword.value.value)
            return
    for each in call.args:
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.startswith("--"):
            yield each.value.lstrip("-").replace("-", "_")


def _in_packed(
    script: ScriptText, call: ast.Call, packed: Sequence[ast.expr], name: str, value: Any
) -> TextEdit:
    """The value in the one dictionary of literals that holds it, and is packed out in the call."""
    names = {each.id for each in packed if isinstance(each, ast.Name)}
    made = [
        node.value
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    ]
    held = [found for each in made for found in _held(script, each, name)]
    if len(held) != 1:
        raise ByHand(f"line {call.lineno} hands on arguments from elsewhere: set {name}={value!r} there")
    return TextEdit(script.begin(held[0]), script.end(held[0]), repr(value))


def _held(script: ScriptText, node: ast.expr, name: str) -> Iterator[ast.expr]:
    """The values of a key in `{"name": value}` and `dict(name=value)`."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                yield value
    elif isinstance(node, ast.Call) and script.name(node.func) == "dict":
        yield from (keyword.value for keyword in node.keywords if keyword.arg == name)


def _added(script: ScriptText, call: ast.Call, text: str) -> TextEdit:
    """A further argument, in a line of its own where the last one has one."""
    last = script.last_token(call)
    end = script.place(last.end)
    parts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not parts:
        return TextEdit(end, end, text)
    final = max(parts, key=script.end)
    indent = script.indent(final.lineno)
    own_line = final.lineno > call.lineno and script.begin(final) == script.begin_of_line(final.lineno) + len(
        indent
    )
    comma = last.string == ","
    if not own_line:
        behind = script.place(last.start) if comma else end
        return TextEdit(behind, behind, f", {text}")
    inserted = f"{script.newline}{indent}{text}"
    if not comma:
        return TextEdit(end, end, f",{inserted}")
    behind = script.line_end(last.end[0])  # and behind what is said of the last one
    return TextEdit(behind, behind, f"{inserted},")
