"""Where an object of a script comes from: the statement that makes what a name stands for."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from perfdoctor.facts.user_source.parse import LOOPS, Function
from perfdoctor.model.dataclass import dataclass
from perfdoctor.trials.edits.script_text import ScriptText

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
Target = ast.Name | ast.Attribute

ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
MAKERS = frozenset(("__init__", "__post_init__"))  # run once for each object
WRAPPER = "DistributedDataParallel"
PREPARE = "prepare"  # of accelerate: returns what it is given, ready for its devices
FARTHEST = 8  # statements and functions through which an object is followed
# Methods of a module that return the module itself: `Net().to(device)`.
RETURN_ITSELF = frozenset(
    "to cuda cpu float double half bfloat16 train eval requires_grad_ apply share_memory".split()
)


@dataclass(frozen=True)
class Made:
    """The statement that makes an object; it is passed on every way to the object's use.

    `kind` is the name of the class, None where the statement does not show it: what a function returns.
    """

    name: str  # of the object, as the statement sets it: "model", "self.net"
    statement: ast.stmt | None  # None: it is made where it is handed to a function
    kind: str | None = None
    is_torchs: bool = False  # the class
    maker: str | None = None  # the function that makes it, where no class is called


def is_object(script: ScriptText, node: ast.expr) -> bool:
    """Whether what is called may be an object that the script keeps: no function, class or method."""
    if isinstance(node, ast.Name):
        return not (script.is_imported(node.id) or script.defines(node.id) or hasattr(builtins, node.id))
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return False
    return bool(_set_in(script, script.tree, node))


def made_by(script: ScriptText, node: ast.expr, use: ast.AST, left: int = FARTHEST) -> Made | None:
    """What makes the object that a name, or an attribute of an object, stands for where it is used.

    None where more than one statement may, as in the branches of an `if`.
    """
    if left and isinstance(node, ast.Name):
        return _of_name(script, node, use, left - 1)
    if left and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _of_attribute(script, node, use, left - 1)
    return None


def _of_name(script: ScriptText, node: ast.Name, use: ast.AST, left: int) -> Made | None:
    around = script.around(use)
    if any(isinstance(each, ast.Lambda) and node.id in _parameters(each) for each in around):
        return None
    scopes = [each for each in reversed(around) if isinstance(each, Scope)]
    for scope in scopes:
        set_by = _set_in(script, scope, node)
        if scope is scopes[0]:
            if any(each in around and not isinstance(each, ASSIGNMENTS) for each in set_by):
                return None  # a loop over it, a `with` as it
            ready = [each for each in set_by if each.lineno < use_line(use) and each not in around]
            if ready and not _is_passed(script, ready[-1], set_by, [*around, use]):
                return None
        else:
            ready = set_by
            if not all(_is_outermost(script, each, scope) for each in ready):
                return None
        if ready:
            return _value(script, ready[-1], node, left)
        if isinstance(scope, Function) and node.id in _parameters(scope):
            return _from_caller(script, scope, node.id, left)
        if set_by:
            return None
    return None


def use_line(use: ast.AST) -> int:
    """The line at which a node begins."""
    return int(getattr(use, "lineno", 0))


def _is_passed(
    script: ScriptText, last: ast.stmt, set_by: Sequence[ast.stmt], path: Sequence[ast.AST]
) -> bool:
    """Whether a statement stands in a block around the use, and no other comes between in a later turn."""
    if not any(each in script.block(last) for each in path):
        return False
    turns = [each for each in path if isinstance(each, LOOPS) and each not in script.around(last)]
    return not any(loop in script.around(each) for loop in turns for each in set_by)


def _is_outermost(script: ScriptText, last: ast.stmt, scope: ast.AST) -> bool:
    """Whether a statement stands in a scope itself, or below `if __name__ == "__main__"`."""
    outer = script.around(last)[-1]
    if isinstance(outer, ast.If) and "__name__" in ast.unparse(outer.test):
        outer = script.around(outer)[-1]
    return outer is scope


def _of_attribute(script: ScriptText, node: ast.Attribute, use: ast.AST, left: int) -> Made | None:
    set_by = _set_in(script, script.tree, node)
    set_by = (
        [each for each in set_by if each is not use and each.lineno < use_line(use)]
        if use in set_by
        else set_by
    )
    blocks = {id(script.block(each)) for each in set_by}
    names = {ast.unparse(target) for each in set_by for target, _ in _pairs(each) if _is(target, node)}
    return _value(script, set_by[-1], node, left) if len(blocks) == len(names) == 1 else None


# ---------------------------------------------------------------- what sets a name


def _set_in(script: ScriptText, scope: ast.AST, node: Target) -> list[ast.stmt]:
    """The statements of a scope that bind a name, or set an attribute of any object, in their order."""
    found = {id(each): each for each in _setting(script, scope, node)}
    return sorted(found.values(), key=lambda each: (each.lineno, each.col_offset))


def _setting(script: ScriptText, scope: ast.AST, wanted: Target) -> Iterator[ast.stmt]:
    for node in ast.walk(scope):
        if isinstance(wanted, ast.Name) and (node is scope or _scope(script, node) is not scope):
            continue
        if isinstance(node, Target):
            sets = _is(node, wanted) and not isinstance(node.ctx, ast.Load)
        else:
            names = (getattr(node, "name", None), getattr(node, "asname", None), *getattr(node, "names", ()))
            sets = isinstance(wanted, ast.Name) and wanted.id in names
        if sets:
            yield script.statement_of(node)


def _is(node: ast.AST, wanted: Target) -> bool:
    """Whether a node is that name, or that attribute, of whatever object."""
    if isinstance(wanted, ast.Name):
        return isinstance(node, ast.Name) and node.id == wanted.id
    return isinstance(node, ast.Attribute) and node.attr == wanted.attr


def _scope(script: ScriptText, node: ast.AST) -> ast.AST:
    """The innermost scope around a node, which may be a class."""
    return next(
        each for each in reversed(script.around(node)) if isinstance(each, Scope | ast.ClassDef | ast.Lambda)
    )


def _pairs(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement sets, and to what: also in `a, b = x, y`, and as accelerate does it."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Tuple):
            yield target, value
            return
        parts = _parts(value)
        starred = any(isinstance(each, ast.Starred) for each in (*parts, *target.elts))
        if len(parts) == len(target.elts) and not starred:
            yield from zip(target.elts, parts, strict=True)


def _parts(value: ast.expr) -> Sequence[ast.expr]:
    """The values of several targets, one by one."""
    if isinstance(value, ast.Call):
        return value.args if isinstance(value.func, ast.Attribute) and value.func.attr == PREPARE else ()
    return value.elts if isinstance(value, ast.Tuple) else ()


def _value(script: ScriptText, statement: ast.stmt, wanted: Target, left: int) -> Made | None:
    """What a statement makes; another one's where it only hands on what that has made."""
    pairs = [(target, value) for target, value in _pairs(statement) if _is(target, wanted)]
    if len(pairs) != 1:
        return None
    name, value = ast.unparse(pairs[0][0]), _itself(pairs[0][1])
    if isinstance(value, ast.Call) and script.name(value.func) == WRAPPER and value.args:
        name, value = f"{name}.module", _itself(value.args[0])
    if not isinstance(value, Target):
        return _instance(script, value, name, statement)
    made = made_by(script, value, statement, left)
    if made is None and MAKERS & {
        each.name for each in script.around(statement) if isinstance(each, Function)
    }:
        return Made(name, statement)  # what it is given
    return made


def _itself(value: ast.expr) -> ast.expr:
    """What a value is without the methods that return the object itself."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in RETURN_ITSELF
    ):
        value = value.func.value
    return value


def _instance(script: ScriptText, value: ast.expr, name: str, statement: ast.stmt | None) -> Made | None:
    """What a call makes."""
    if not isinstance(value, ast.Call):
        return None
    name_of = script.name(value.func)
    if name_of[:1].isupper():
        return Made(name, statement, name_of, script.is_torchs(value.func))
    return Made(name, statement, maker=name_of)


# ---------------------------------------------------------------- what is handed in


def _parameters(function: Function | ast.Lambda) -> list[str]:
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _from_caller(script: ScriptText, function: Function, name: str, left: int) -> Made | None:
    """What the one call of a function hands in; None where it is called more than once, or by others."""
    owner = script.around(function)[-1]
    called = function.name
    if not all(ast.unparse(each).startswith("torch.") for each in function.decorator_list):
        return None  # a static method, or one that is called with other arguments
    if isinstance(owner, ast.ClassDef) and called == "__init__":
        called = owner.name
    uses = [
        node for node in ast.walk(script.tree) if isinstance(node, Target) and script.name(node) == called
    ]
    calls = [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Call) and script.name(node.func) == called
    ]
    if len(uses) != 1 or len(calls) != 1:
        return None
    call, place = calls[0], _parameters(function).index(name) - isinstance(owner, ast.ClassDef)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in given or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    of_class = isinstance(call.func, ast.Attribute) and script.defines(script.name(call.func.value))
    if of_class or isinstance(owner, Function):
        return None
    handed = given.get(name) or (call.args[place] if 0 <= place < len(call.args) else None)
    if handed is None:
        return None
    handed = _itself(handed)
    if isinstance(handed, Target):
        return made_by(script, handed, call, left)
    return _instance(script, handed, name, None)
