"""Where an object of a script comes from: the statement that makes what a name stands for.

Nothing is guessed: where a name may stand for another object on some way to its use, there is no answer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from perfdoctor.facts.user_source.origins import base_name, bound, parameters
from perfdoctor.facts.user_source.parse import LOOPS, Function, names_in
from perfdoctor.model.dataclass import dataclass
from perfdoctor.trials.edits.bindings import (
    ASSIGNMENTS,
    Scope,
    Target,
    bound_in,
    is_hidden,
    is_that,
    pairs,
    preparer,
)
from perfdoctor.trials.edits.script_text import ScriptText

WRAPPER, WRAPPED = "DistributedDataParallel", ".module"
PREPARES = "Accelerator"
MAKES_MORE = frozenset(("__class__", "cls", "type"))  # of its own kind, under another name
FARTHEST = 8  # statements and functions through which an object is followed
# Methods of a module that return the module itself: `Net().to(device)`.
RETURN_ITSELF = frozenset(
    "to cuda cpu float double half bfloat16 train eval requires_grad_ apply share_memory".split()
)
MODES = ("train", "eval", "requires_grad_")
INITIALISES = re.compile("init|weight|lambda")
LOOKS_UP = frozenset(("getattr", "get", "partial"))  # what a class, or a function that makes one, comes of
COUNTS = frozenset("len int float str bool dict list tuple get".split())  # what makes no module


@dataclass(frozen=True)
class Made:
    """The statement that makes an object; it is passed on every way to the object's use.

    `kind` is the name of what is called there, or of the class of which a function of the file makes one.
    None: it does not show.
    """

    name: str  # of the object, as the statement sets it: "model", "self.net", "model.module"
    statement: ast.stmt | None  # None: it is made where it is handed to a function
    kind: str | None = None
    is_sure: bool = False  # the kind is a class of the file's or of torch's, and no function with a capital
    by: ast.Call | None = None  # of a function of another file, which makes it


def made_by(script: ScriptText, node: ast.expr, use: ast.AST, left: int = FARTHEST) -> Made | None:
    """What makes the object that a name, or an attribute of an object, stands for where it is used."""
    if left and isinstance(node, ast.Name):
        return _of_name(script, node, use, left - 1)
    if left and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _of_attribute(script, node, node.value, use, left - 1)
    return None


def made_at(script: ScriptText, line: int, kind: str) -> Made | None:
    """The one object of a class that a line is known to have made; None where the line may not have.

    Where the line does not name the class, as a registry's lookup does not, it is what the one call makes of
    what is looked up. `name` is empty where the object is returned at once.
    """
    calls = list(script.calls(line))
    making = [call for call in calls if script.name(call.func) == kind]
    making = making or [call for call in calls if _is_looked_up(call)]
    statement = script.statement_of(making[0]) if len(making) == 1 else None
    if statement is None or preparer(statement) is not None or _is_wrapped(script, kind):
        return None
    set_to = [("", statement.value)] if isinstance(statement, ast.Return) else []
    set_to += [(ast.unparse(name), value) for name, value in pairs(statement) if _is_simple(script, name)]
    for name, given in set_to:
        value = _itself(script, given) if given is not None else None
        if name and isinstance(value, ast.Call) and script.name(value.func) == WRAPPER and value.args:
            name, value = name + WRAPPED, _itself(script, value.args[0])
        if value is making[0]:
            return Made(name, statement, kind, is_sure=True)
    return None


def names_its_class(script: ScriptText, line: int, kind: str) -> bool:
    """Whether a line calls a class by its name: then it makes one, and is no line that calls one."""
    return any(script.name(call.func) == kind for call in script.calls(line))


def _is_looked_up(call: ast.Call) -> bool:
    """Whether a call is of a class that is looked up, and nothing that it is given may make another."""
    func = call.func
    looked_up = isinstance(func, ast.Subscript) or (
        isinstance(func, ast.Call) and ast.unparse(func.func).rpartition(".")[2] in LOOKS_UP
    )
    given = (node for each in (*call.args, *call.keywords) for node in ast.walk(each))
    inside = (node for node in given if isinstance(node, ast.Call))
    return looked_up and all(ast.unparse(each.func).rpartition(".")[2] in COUNTS for each in inside)


def _is_wrapped(script: ScriptText, kind: str) -> bool:
    """Whether a class of the file may make something else than an object of its own."""
    classes = (each for each in ast.walk(script.tree) if isinstance(each, ast.ClassDef) and each.name == kind)
    return any(
        each.decorator_list or any(getattr(node, "name", None) == "__new__" for node in each.body)
        for each in classes
    )


def _is_simple(script: ScriptText, target: ast.expr) -> bool:
    """Whether a target is a name, or an attribute but no property, and the same when it is said again."""
    if isinstance(target, ast.Attribute) and script.defines(target.attr):
        return False
    return isinstance(target, Target) and not any(isinstance(node, ast.Call) for node in ast.walk(target))


def _of_name(script: ScriptText, node: ast.Name, use: ast.AST, left: int) -> Made | None:
    if is_hidden(script, node.id, use):
        return None
    around = script.around(use)
    scopes = [each for each in reversed(around) if isinstance(each, Scope)]
    for scope in scopes:
        set_by = bound_in(script, scope, node)
        if scope is scopes[0]:
            if any(each in around and not isinstance(each, ASSIGNMENTS) for each in set_by):
                return None  # a loop over it, a `with` as it
            ready = [each for each in set_by if each.lineno < _line(use) and each not in around][-1:]
            if not _is_passed(script, ready, set_by, [*around, use]):
                return None
        else:
            ready = set_by
            if not all(_is_outermost(script, each, scope) for each in ready):
                return None
        if ready:
            return _agreed([_value(script, each, node, left) for each in ready])
        if isinstance(scope, Function) and node.id in parameters(scope):
            return _from_callers(script, scope, node.id, left)
        if set_by:
            return None
    return None


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _is_passed(
    script: ScriptText, ready: Sequence[ast.stmt], set_by: Sequence[ast.stmt], path: Sequence[ast.AST]
) -> bool:
    """Whether the last statement is in a block around the use, and none binds the name in a later turn."""
    if ready and not any(each in script.block(ready[0]) for each in path):
        return False
    turns = [
        each
        for each in path
        if isinstance(each, LOOPS) and not any(each in script.around(last) for last in ready)
    ]
    return not any(loop in script.around(each) for loop in turns for each in set_by)


def _is_outermost(script: ScriptText, statement: ast.stmt, scope: ast.AST) -> bool:
    """Whether a statement stands in a scope itself, or below `if __name__ == "__main__"`."""
    outer = script.around(statement)[-1]
    if isinstance(outer, ast.If) and "__name__" in ast.unparse(outer.test) and not outer.orelse:
        outer = script.around(outer)[-1]
    return outer is scope


def _agreed(found: Sequence[Made | None]) -> Made | None:
    """What all of them are: the same object, made by the same statement."""
    last = found[-1] if found else None
    if last is None or any(
        each is None or each.statement is not last.statement or each.name != last.name for each in found
    ):
        return None
    return last if last.statement is not None or len(found) == 1 else None


def _of_attribute(
    script: ScriptText, node: ast.Attribute, of: ast.Name, use: ast.AST, left: int
) -> Made | None:
    """Of an attribute that one class of the file sets, of which the file makes one object."""
    set_by = bound_in(script, script.tree, node)
    owners = {_class_around(script, each) for each in set_by}
    owner = owners.pop() if len(owners) == 1 else None
    if owner is None or len(_calls_of(script, owner.name)) != 1 or MAKES_MORE & names_in(owner):
        return None
    if of.id == "self":
        if _class_around(script, use) is not owner:
            return None
    else:
        holder = made_by(script, of, use, left)
        if holder is None or holder.kind != owner.name:
            return None
    if use in set_by:
        set_by = [each for each in set_by if each is not use and each.lineno < _line(use)]
    return _agreed([_value(script, each, node, left) for each in set_by])


def _class_around(script: ScriptText, node: ast.AST) -> ast.ClassDef | None:
    return next((each for each in reversed(script.around(node)) if isinstance(each, ast.ClassDef)), None)


# ---------------------------------------------------------------- what a statement makes


def _value(script: ScriptText, statement: ast.stmt, wanted: Target, left: int) -> Made | None:
    """What a statement makes; another one's where it only hands on what that has made."""
    set_to = [(target, value) for target, value in pairs(statement) if is_that(target, wanted)]
    if len(set_to) != 1:
        return None
    name, value = ast.unparse(set_to[0][0]), _itself(script, set_to[0][1])
    prepares = preparer(statement)
    if prepares is not None:
        made = made_by(script, prepares, statement, left)
        if made is None or made.kind != PREPARES or not isinstance(value, Target):
            return None
    if isinstance(value, ast.Call) and script.name(value.func) == WRAPPER and value.args:
        name, value = name + WRAPPED, _itself(script, value.args[0])
    if isinstance(value, Target):
        return made_by(script, value, statement, left)
    return _instance(script, value, name, statement, left)


def _itself(script: ScriptText, value: ast.expr) -> ast.expr:
    """What a value is without the methods that return the object itself."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in RETURN_ITSELF
        and not script.defines(value.func.attr)
        and _is_setting(value, value.func.attr)
    ):
        value = value.func.value
    return value


def _is_setting(call: ast.Call, name: str) -> bool:
    """Whether a method is called as torch's: a trainer may have a `train(loader)` of its own."""
    if name == "apply":
        return all(INITIALISES.search(ast.unparse(each)) for each in call.args)
    return name not in MODES or all(isinstance(each, ast.Constant) for each in call.args)


def _instance(
    script: ScriptText, value: ast.expr, name: str, statement: ast.stmt | None, left: int
) -> Made | None:
    """What a call makes."""
    if not isinstance(value, ast.Call):
        return None
    called = script.name(value.func)
    if script.defines(called):
        own = [
            each
            for each in ast.walk(script.tree)
            if isinstance(each, Function | ast.ClassDef) and each.name == called
        ]
        if len(own) != 1 or not isinstance(value.func, ast.Name):
            return Made(name, statement)
        kind = called if isinstance(own[0], ast.ClassDef) else _returned(script, own[0], left)
        return Made(name, statement, kind, is_sure=kind is not None)
    if called[:1].isupper() and script.is_imported(base_name(value.func) or ""):
        return Made(name, statement, called, is_sure=script.is_torchs(value.func))
    return Made(name, statement, by=value if script.is_imported(base_name(value.func) or "") else None)


def _returned(script: ScriptText, function: Function, left: int) -> str | None:
    """The class of which a function makes a new object each time; None where it may return something else."""
    if function.decorator_list or not left:
        return None
    kinds = set()
    for node in ast.walk(function):
        inner = next(each for each in reversed(script.around(node)) if isinstance(each, Scope))
        if not isinstance(node, ast.Return) or inner is not function:
            continue
        value = _itself(script, node.value) if node.value is not None else None
        if isinstance(value, ast.Name):
            made = made_by(script, value, node, left - 1)
            fresh = (
                made is not None and made.statement is not None and function in script.around(made.statement)
            )
            kinds.add(made.kind if fresh and made is not None and not made.name.endswith(WRAPPED) else None)
        else:
            made = _instance(script, value, "", node, left - 1) if value is not None else None
            kinds.add(made.kind if made is not None else None)
    return kinds.pop() if len(kinds) == 1 else None


# ---------------------------------------------------------------- what is handed in


def _calls_of(script: ScriptText, name: str) -> list[ast.Call]:
    """The calls of a function or class of the file by its name."""
    calls = (node for node in ast.walk(script.tree) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]


def _from_callers(script: ScriptText, function: Function, name: str, left: int) -> Made | None:
    """What all calls of a function hand in: the same object. None where others may call it."""
    owner = script.around(function)[-1]
    given = function.args
    packed = {each.arg for each in (given.vararg, given.kwarg) if each is not None}
    bare = all(ast.unparse(each).startswith("torch.") for each in function.decorator_list)
    if name in packed or not bare:
        return None
    if isinstance(owner, ast.ClassDef) and function.name != "__init__":
        calls = _calls_of_method(script, owner, function.name, left)
    else:
        called = owner.name if isinstance(owner, ast.ClassDef) else function.name
        calls = _calls_of(script, called)
        uses = [node for node in ast.walk(script.tree) if isinstance(node, ast.Name) and node.id == called]
        twice = sum(getattr(node, "name", None) == called for node in ast.walk(script.tree)) > 1
        if len(uses) != len(calls) or twice:
            return None
    found = []
    for call in calls or ():
        handed = _handed(script, call, function, name)
        if isinstance(handed, Target):
            found.append(made_by(script, handed, call, left))
        else:
            found.append(_instance(script, handed, name, None, left) if handed is not None else None)
    return _agreed(found)


def _calls_of_method(script: ScriptText, owner: ast.ClassDef, name: str, left: int) -> list[ast.Call] | None:
    """The calls of a method of a class, where no other object may be meant; None otherwise."""
    if owner.bases:
        return None  # what it inherits may call it
    found = []
    for node in ast.walk(script.tree):
        if not (isinstance(node, ast.Attribute) and node.attr == name):
            continue
        call = script.around(node)[-1]
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            kind = getattr(_class_around(script, node), "name", None)
        else:
            made = made_by(script, node.value, node, left)
            kind = made.kind if made is not None and made.is_sure else None
        if kind is None or (kind == owner.name and not (isinstance(call, ast.Call) and call.func is node)):
            return None
        if kind == owner.name and isinstance(call, ast.Call):
            found.append(call)
    return found


def _handed(script: ScriptText, call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """What a call hands in for a parameter; None where it packs arguments out."""
    packs = any(keyword.arg is None for keyword in call.keywords)
    if packs or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    handed = dict(bound(function, call)).get(name)
    return _itself(script, handed) if handed is not None else None
