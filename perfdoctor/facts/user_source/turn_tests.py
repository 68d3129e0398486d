"""Reads the tests that a line runs by: which remainders they ask for, and whether they differ by turn."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from copy import deepcopy

from perfdoctor.facts.user_source.known_calls import PURE_BUILTINS
from perfdoctor.facts.user_source.origins import SELVES, FunctionNode, bound, called_name, dotted, parameters

Branch = tuple[str, str, str]  # what is taken modulo, modulo what, the remainder
Meaning = Callable[[ast.expr], "ast.expr | None"]  # what a name was set to, or what a call returns
# Comparisons of a remainder that say that nothing is left, and those that say that something is.
NOTHING_LEFT, SOMETHING_LEFT = {(ast.LtE, 0), (ast.Lt, 1)}, {(ast.Gt, 0), (ast.GtE, 1)}
ORDERS = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}  # with what they are, swapped
MODULO = frozenset(("mod", "fmod", "remainder"))
# What tells of the process rather than of the turn.
OF_PROCESS = re.compile(r"(?:^|_)(?:rank|main|master|primary|chief|world)(?:_|$)", re.IGNORECASE)


def remainders(test: ast.expr, came: bool, meaning: Meaning) -> Iterator[Branch]:
    """The remainders that must be, or may be, what they are compared with for a test to come out so."""
    taken = _taken(test)
    if taken is not None:
        if not came:
            yield _operand(taken[0]), _operand(taken[1]), "0"
    elif isinstance(test, ast.NamedExpr):
        yield from remainders(test.value, came, meaning)
    elif isinstance(test, ast.Name | ast.Call):
        value = meaning(test)
        yield from remainders(value, came, _unknown) if value is not None else ()
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from remainders(test.operand, not came, meaning)
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from remainders(part, came, meaning)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        yield from _compared(test, came)


def _compared(test: ast.Compare, came: bool) -> Iterator[Branch]:
    kind, left, right = type(test.ops[0]), test.left, test.comparators[0]
    taken = _taken(left)
    if taken is None:  # `0 == step % 50`
        taken, right, kind = _taken(right), left, ORDERS.get(kind, kind)
    if taken is None:
        return
    rest = ast.unparse(right)
    number = right.value if isinstance(right, ast.Constant) else None
    if (kind, number) in (NOTHING_LEFT if came else SOMETHING_LEFT):
        rest = "0"
    elif kind is not (ast.Eq if came else ast.NotEq):
        return
    yield _operand(taken[0]), _operand(taken[1]), rest


def _taken(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """What is taken modulo, and modulo what: `a % b`, `math.fmod(a, b)`, `divmod(a, b)[1]`."""
    if isinstance(node, ast.NamedExpr):
        node = node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return node.left, node.right
    names = MODULO
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 1:
        node, names = node.value, frozenset(("divmod",))
    if isinstance(node, ast.Call) and called_name(node) in names and len(node.args) == 2:
        return node.args[0], node.args[1]
    return None


def _unknown(node: ast.expr) -> None:
    """Names that stand for others are not followed any further."""


def _operand(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, ast.BinOp | ast.UnaryOp | ast.IfExp) else text


def returned(function: FunctionNode, call: ast.Call) -> ast.expr | None:
    """What a call of a function gives, in names of the caller's; None where that needs more than a look."""
    last = function.body[-1]
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    if not isinstance(last, ast.Return) or last.value is None or len(returns) != 1:
        return None
    given = dict(bound(function, call))
    if isinstance(call.func, ast.Attribute):
        given |= dict.fromkeys(SELVES, call.func.value)
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {*parameters(function), *SELVES}
    used = {node.id for node in ast.walk(last.value) if isinstance(node, ast.Name)}
    return _Put(given).visit(deepcopy(last.value)) if not used & own - given.keys() else None


class _Put(ast.NodeTransformer):
    """Puts in what is given for the names of parameters."""

    def __init__(self, given: dict[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._given.get(node.id, node)


def varies(test: ast.expr, changed: set[str], given: set[str]) -> bool:
    """Whether a test may come out otherwise from turn to turn, or whether nobody can tell.

    By the names that turns change, by what a function is given and compares, and by what calls return.
    """
    if isinstance(test, ast.NamedExpr):
        return varies(test.value, changed, given)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return varies(test.operand, changed, given)
    if isinstance(test, ast.BoolOp):
        return any(varies(part, changed, given) for part in test.values)
    if isinstance(test, ast.Name | ast.Attribute):
        return dotted(test) in changed
    if isinstance(test, ast.Compare) and all(isinstance(one, ast.Is | ast.IsNot) for one in test.ops):
        return False  # whether there is a writer
    nodes = list(ast.walk(test))
    names = {dotted(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)}
    if any(OF_PROCESS.search(name.rpartition(".")[2]) for name in names):
        return False
    return bool(names & (changed | given)) or any(map(_tells_something, nodes))


def _tells_something(node: ast.AST) -> bool:
    """Whether a node is a call that may return another thing each time; `get("verbose")` does not."""
    if not isinstance(node, ast.Call) or called_name(node) in PURE_BUILTINS:
        return False
    return not node.args or not all(
        isinstance(one, ast.Constant) and isinstance(one.value, str) for one in node.args
    )
