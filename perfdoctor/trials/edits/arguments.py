"""Sets an argument of a call as one would type it: at the call, or where its value comes from."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trials.edits import options
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.tweaks import Argument

TRAINING_ARGUMENTS = "TrainingArguments"  # as the names of transformers' end, each trainer's own as well
RUNS_A_TRAINER = frozenset(("train", "evaluate", "predict"))
HOST = "cpu"


@dataclass(frozen=True)
class Asked:
    """What is to be written: the argument, what it became, the command's words, and all lines told of it."""

    wanted: Argument
    now: Any
    typed: Sequence[str]
    lines: Collection[int]

    @property
    def name(self) -> str:
        """What the argument is called."""
        return self.wanted.named(self.now)

    @property
    def value(self) -> Any:
        """What it is set to."""
        return self.wanted.value(self.now)


def set_at(script: ScriptText, line: int, asked: Asked) -> list[TextEdit]:
    """The edits that give a call at a line the argument. Raises ByHand."""
    wanted = asked.wanted
    calls = [call for call in script.calls(line) if script.name(call.func) in wanted.calls]
    if len(calls) > 1 and not (wanted.every and _alike(calls)):
        raise ByHand(f"line {line} calls {script.name(calls[0].func)} {len(calls)} times")
    if calls:
        return [edit for call in calls for edit in _set(script, call, asked)]
    if wanted.trainer is not None and any(
        script.name(call.func) in RUNS_A_TRAINER for call in script.calls(line)
    ):
        return _set_trainer(script, asked, wanted.trainer)
    raise ByHand(f"line {line} does not call {wanted.calls[0]} itself")


def _alike(calls: Sequence[ast.Call]) -> bool:
    """Whether they are the same calls of different objects: `x.to(device), y.to(device)`."""
    given = {ast.unparse(ast.Call(ast.Name("call"), call.args, call.keywords)) for call in calls}
    return len(given) == 1


def _set_trainer(script: ScriptText, asked: Asked, name: str) -> list[TextEdit]:
    every = [node for node in ast.walk(script.tree) if isinstance(node, ast.Call)]
    named = [(script.name(node.func), node) for node in every]
    made = [node for called, node in named if called.endswith(TRAINING_ARGUMENTS) and called[0].isupper()]
    if len(made) != 1:
        raise ByHand(
            f"the trainer's loaders are made by its {TRAINING_ARGUMENTS}: set {name}={asked.value!r}"
        )
    return _set(script, made[0], Asked(Argument(TRAINING_ARGUMENTS, name=name), asked.value, asked.typed, ()))


def _set(script: ScriptText, call: ast.Call, asked: Asked) -> list[TextEdit]:
    wanted, name, value = asked.wanted, asked.name, asked.value
    keywords = {keyword.arg: keyword for keyword in call.keywords if keyword.arg is not None}
    _check(script, call, asked, keywords)
    replaced = [keywords[other] for other in wanted.instead_of if other != name and other in keywords]
    if replaced and name not in keywords and len(replaced) == 1:
        return [TextEdit(script.begin(replaced[0]), script.end(replaced[0]), f"{name}={value!r}")]
    if replaced:
        raise ByHand(f"line {call.lineno} sets {name} and what excludes it")
    if name in keywords:
        return [_value(script, keywords[name].value, asked)]
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    if wanted.place is not None and len(call.args) > wanted.place and not starred:
        return [_value(script, call.args[wanted.place], asked)]
    packed = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if packed or starred:
        return [_in_packed(script, call, packed, asked)]
    return [added(script, call, f"{name}={value!r}")]


def _check(script: ScriptText, call: ast.Call, asked: Asked, keywords: Collection[str]) -> None:
    """Raise ByHand where the call would not take the argument, or would mean something else by it."""
    func, first = call.func, call.args[0] if call.args else None
    if isinstance(func, ast.Attribute) and script.name(func.value)[:1].isupper():
        raise ByHand(f"line {call.lineno} calls {script.name(func)} of a class")
    if isinstance(first, ast.Constant) and str(first.value).startswith(HOST):
        raise ByHand(f"line {call.lineno} copies to the host, which would not wait for it")
    if isinstance(first, ast.GeneratorExp):
        raise ByHand(f"line {call.lineno} gives it a generator without parentheses")
    home = script.imported_from(func)
    if home is not None and home.partition(".")[0] not in {"torch", "torchdata"} and len(call.args) > 1:
        raise ByHand(f"{script.name(func)} is that of {home}, which may take other arguments by position")
    needless = sorted(asked.wanted.only_with.intersection(keywords)) if not asked.value else []
    if needless:
        raise ByHand(
            f"with {asked.name}={asked.value!r}, line {call.lineno} must not give {', '.join(needless)}"
        )


def _value(script: ScriptText, node: ast.expr, asked: Asked) -> TextEdit:
    """Another value there; or, where nothing else reads it, as the default of the option it comes from."""
    option = options.read_by(script, node, asked.lines)
    if option is None:
        return TextEdit(script.begin(node), script.end(node), repr(asked.value))
    default = options.default(option, asked.value, asked.typed)
    if default is not None:
        return TextEdit(script.begin(default), script.end(default), repr(asked.value))
    return added(script, option, f"default={asked.value!r}")


# ---------------------------------------------------------------- arguments that are packed out


def _in_packed(script: ScriptText, call: ast.Call, packed: Sequence[ast.expr], asked: Asked) -> TextEdit:
    """The value in the one dictionary of literals that holds it, and that nothing else is done with."""
    scope = script.scope(call.lineno)
    held = [
        value
        for each in packed
        if isinstance(each, ast.Name)
        for made in _made(script, scope, each.id, asked.lines)
        for value in _held(script, made, asked.name)
    ]
    if len(held) != 1:
        raise ByHand(
            f"line {call.lineno} hands on arguments from elsewhere: set {asked.name}={asked.value!r} there"
        )
    return TextEdit(script.begin(held[0]), script.end(held[0]), repr(asked.value))


def _made(script: ScriptText, scope: ast.AST, name: str, lines: Collection[int]) -> Iterator[ast.expr]:
    """What a name of a scope is, where it is set once and then only packed out in calls of these lines."""
    inside = list(ast.walk(scope))
    made = [
        node.value
        for node in inside
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    packed = [
        call
        for call in inside
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id == name
    ]
    told = all(any(call.lineno <= line <= (call.end_lineno or 0) for line in lines) for call in packed)
    uses = sum(isinstance(node, ast.Name) and node.id == name for node in inside)
    if len(made) == 1 and told and uses == 1 + len(packed):
        yield made[0]


def _held(script: ScriptText, node: ast.expr, name: str) -> Iterator[ast.expr]:
    """The values of a key in `{"name": value}` and `dict(name=value)` that hold nothing of another one."""
    if isinstance(node, ast.Dict) and None not in node.keys:
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                yield value
    elif isinstance(node, ast.Call) and script.name(node.func) == "dict" and not node.args:
        whole = all(keyword.arg is not None for keyword in node.keywords)
        yield from (keyword.value for keyword in node.keywords if whole and keyword.arg == name)


# ---------------------------------------------------------------- further arguments


def added(script: ScriptText, call: ast.Call, text: str) -> TextEdit:
    """A further argument, in a line of its own where the last one has one."""
    last = script.last_token(call)
    end = script.place(last.end)
    parts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not parts:
        return TextEdit(end, end, f"{text}, ")
    final = max(parts, key=script.end)
    indent = script.indent(final.lineno)
    comma = last.string == ","
    own_line = (
        final.lineno > call.lineno
        and script.begin(final) == script.begin_of_line(final.lineno) + len(indent)
        and not (comma and script.says_more(end))
    )
    if not own_line:
        behind = script.place(last.start) if comma else end
        return TextEdit(behind, behind, f", {text}")
    inserted = f"{script.newline}{indent}{text}"
    if not comma:
        return TextEdit(end, end, f",{inserted}")
    behind = script.line_end(last.end[0])  # and behind what is said of the last one
    return TextEdit(behind, behind, f"{inserted},")
