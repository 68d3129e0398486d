"""Sets an argument of a call as one would type it: at the call, or where its value comes from."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trials.edits import options
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit, holds
from perfdoctor.tweaks import Argument

TRAINING_ARGUMENTS = frozenset(("TrainingArguments", "Seq2SeqTrainingArguments"))
RUNS_A_TRAINER = frozenset(("train", "evaluate", "predict"))
HOST = "cpu"


@dataclass(frozen=True)
class Asked:
    """What is to be written: the argument, and what it became.

    `typed` are the words of the command, `lines` all lines of the file at which the tweak changed something.
    """

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


@dataclass(frozen=True)
class Written:
    """The edits of one change, and all lines whose calls they act on."""

    edits: tuple[TextEdit, ...]
    lines: frozenset[int]


def set_at(script: ScriptText, line: int, asked: Asked) -> Written:
    """The edits that give a call at a line the argument. Raises ByHand."""
    wanted = asked.wanted
    calls = [call for call in script.calls(line) if script.name(call.func) in wanted.calls]
    if len(calls) > 1 and not (wanted.every and _alike(calls)):
        raise ByHand(f"line {line} calls {script.name(calls[0].func)} {len(calls)} times")
    if calls:
        written = [_set(script, call, asked) for call in calls]
    elif wanted.trainer is not None and any(
        script.name(call.func) in RUNS_A_TRAINER for call in script.calls(line)
    ):
        written = [_set_trainer(script, line, asked, wanted.trainer)]
    else:
        raise ByHand(f"line {line} does not call {wanted.calls[0] if wanted.calls else 'a trainer'} itself")
    edits = tuple(edit for one in written for edit in one.edits)
    return Written(edits, frozenset((line,)).union(*(one.lines for one in written)))


def _alike(calls: Sequence[ast.Call]) -> bool:
    """Whether they are the same calls of different objects: `x.to(device), y.to(device)`."""
    given = {ast.unparse(ast.Call(ast.Name("call"), call.args, call.keywords)) for call in calls}
    return len(given) == 1


def _set_trainer(script: ScriptText, line: int, asked: Asked, name: str) -> Written:
    """In the one TrainingArguments that the function which runs the trainer makes."""
    scope = script.scope(line)
    made = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.Call) and script.name(node.func) in TRAINING_ARGUMENTS
    ]
    if len(made) != 1:
        raise ByHand(f"the trainer's loaders are made by its TrainingArguments: set {name}={asked.value!r}")
    of_trainer = Argument(*TRAINING_ARGUMENTS, name=name)
    return _set(script, made[0], Asked(of_trainer, asked.value, asked.typed, asked.lines))


def _set(script: ScriptText, call: ast.Call, asked: Asked) -> Written:
    wanted, name, value = asked.wanted, asked.name, asked.value
    keywords = {keyword.arg: keyword for keyword in call.keywords if keyword.arg is not None}
    packed = [keyword.value for keyword in call.keywords if keyword.arg is None]
    _check(script, call, asked, keywords, packed)
    replaced = [keywords[other] for other in wanted.instead_of if other != name and other in keywords]
    if replaced and name not in keywords and len(replaced) == 1:
        return _here(TextEdit(script.begin(replaced[0]), script.end(replaced[0]), f"{name}={value!r}"))
    if replaced:
        raise ByHand(f"line {call.lineno} sets {name} and what excludes it")
    if name in keywords:
        return _value(script, keywords[name].value, asked)
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    if wanted.place is not None and len(call.args) > wanted.place and not starred:
        if script.name(call.func)[:1].isupper() and not script.is_torchs(call.func):
            raise ByHand(f"line {call.lineno} gives it by position to a class that may not be torch's")
        return _value(script, call.args[wanted.place], asked)
    if packed or starred:
        return _in_packed(script, call, packed, asked)
    return _here(*added(script, call, f"{name}={value!r}"))


def _here(*edits: TextEdit) -> Written:
    return Written(edits, frozenset())


def _check(
    script: ScriptText, call: ast.Call, asked: Asked, keywords: Collection[str], packed: Sequence[ast.expr]
) -> None:
    """Raise ByHand where the call would not take the argument, or would mean something else by it."""
    func, first = call.func, call.args[0] if call.args else None
    if isinstance(func, ast.Attribute) and script.name(func.value)[:1].isupper():
        raise ByHand(f"line {call.lineno} calls {script.name(func)} of a class")
    if isinstance(first, ast.GeneratorExp):
        raise ByHand(f"line {call.lineno} gives it a generator without parentheses")
    if script.name(func) == "to" and (_is_host(call) or script.is_returned(call)):
        raise ByHand(f"line {call.lineno} may copy to the host, which would not wait for it")
    others = asked.wanted.only_with
    needless = sorted(others.intersection(keywords)) or [ast.unparse(each) for each in packed]
    if others and needless and not asked.value:
        raise ByHand(f"line {call.lineno} gives {needless[0]}, which {asked.name}={asked.value!r} excludes")


def _is_host(call: ast.Call) -> bool:
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "device")]
    return any(isinstance(each, ast.Constant) and str(each.value).startswith(HOST) for each in given)


def _value(script: ScriptText, node: ast.expr, asked: Asked) -> Written:
    """Another value there; or as the default of the option it comes from, where only these lines read it."""
    read = options.read_by(script, node, asked.lines)
    if read is None:
        return _here(TextEdit(script.begin(node), script.end(node), repr(asked.value)))
    option, lines = read
    default = options.default(option, asked.value, asked.typed)
    allowed = options.choices(script, option, asked.value)
    if default is not None:
        edits = [TextEdit(script.begin(default), script.end(default), repr(asked.value))]
    else:
        edits = added(script, option, f"default={asked.value!r}")
    return Written((*allowed, *edits), lines)


# ---------------------------------------------------------------- arguments that are packed out


def _in_packed(script: ScriptText, call: ast.Call, packed: Sequence[ast.expr], asked: Asked) -> Written:
    """The value in the one dictionary of literals that holds it, and that nothing else is done with.

    Where dictionaries of literals are all that is packed out, and none holds it, it is a further argument.
    """
    scope, names = script.scope(call.lineno), {asked.name, *asked.wanted.instead_of}
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    found: list[tuple[ast.expr, frozenset[int]]] = []
    is_whole = not starred
    for each in packed:
        made, lines = _made(scope, each, asked.lines)
        held = [_held(script, part) for part in made]
        values = [value for one in held for key, value in one or () if key in names]
        is_whole = is_whole and bool(held) and None not in held and not values
        if lines is not None and len(made) == 1:
            found += [(value, lines) for key, value in held[0] or () if key == asked.name]
    if is_whole:
        return _here(*added(script, call, f"{asked.name}={asked.value!r}"))
    if len(found) != 1:
        raise ByHand(
            f"line {call.lineno} hands on arguments from elsewhere: set {asked.name}={asked.value!r} there"
        )
    value, lines = found[0]
    return Written((TextEdit(script.begin(value), script.end(value), repr(asked.value)),), lines)


def _made(
    scope: ast.AST, given: ast.expr, lines: Collection[int]
) -> tuple[list[ast.expr], frozenset[int] | None]:
    """What may be packed out: a value, or those of a name of a scope that is set once and only packed out.

    And those of the lines whose calls it is packed out in; None where others pack it out, too.
    """
    if not isinstance(given, ast.Name):
        return _either(given), frozenset()
    inside = list(ast.walk(scope))
    made = [
        node.value
        for node in inside
        if isinstance(node, ast.Assign)
        and all(isinstance(target, ast.Name) and target.id == given.id for target in node.targets)
    ]
    packed = [
        call
        for call in inside
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id == given.id
    ]
    told = [{line for line in lines if holds(call, line)} for call in packed]
    uses = sum(isinstance(node, ast.Name) and node.id == given.id for node in inside)
    if len(made) != 1 or uses != 1 + len(packed):
        return [], None
    return _either(made[0]), frozenset().union(*told) if all(told) else None


def _either(node: ast.expr) -> list[ast.expr]:
    """The values that an expression may have: two for `a if condition else b`."""
    return [*_either(node.body), *_either(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def _held(script: ScriptText, node: ast.expr) -> list[tuple[str, ast.expr]] | None:
    """Keys and values of `{"name": value}` and `dict(name=value)`; None where others may be in it."""
    if isinstance(node, ast.Dict):
        keys = [each.value if isinstance(each, ast.Constant) else None for each in node.keys]
        pairs = [(key, value) for key, value in zip(keys, node.values, strict=True) if isinstance(key, str)]
        return pairs if len(pairs) == len(keys) else None
    if isinstance(node, ast.Call) and script.name(node.func) == "dict" and not node.args:
        named = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
        return named if len(named) == len(node.keywords) else None
    return None


# ---------------------------------------------------------------- further arguments


def added(script: ScriptText, call: ast.Call, text: str) -> list[TextEdit]:
    """The edits for a further argument, in a line of its own where the last one has one."""
    last = script.last_token(call)
    end = script.place(last.end)
    parts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not parts:
        return [TextEdit(end, end, f"{text}, ")]
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
        return [TextEdit(behind, behind, f", {text}")]
    inserted, behind = f"{script.newline}{indent}{text}", script.line_end(last.end[0])
    if not comma and (script.says_more(end) or not script.text[end:behind].strip()):
        return [TextEdit(end, end, f",{inserted}")]
    # Behind what is said of the last one; of several, each ends in a comma.
    ended = [] if comma else [TextEdit(end, end, ",")]
    return [*ended, TextEdit(behind, behind, f"{inserted},")]
