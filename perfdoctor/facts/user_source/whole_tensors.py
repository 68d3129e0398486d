"""Writes what a loop does with the samples of a batch as one operation on whole tensors.

`correct += (p == t).item()` for each `p, t in zip(pred, y)` is `correct += (pred == y).sum().item()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from perfdoctor.facts.user_source.loop_statements import unit_of
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import names_in, statements

# What is left of an element once it is a number: the same of the whole tensor, or nothing.
CONVERTING = frozenset(("item", "int", "float", "bool"))
LEAVING = (ast.Continue, ast.Break, ast.Return)  # what comes behind is done for some of the elements


def on_whole_tensors(loop: ast.AST) -> str | None:
    """The first statement of a loop that can be written so; None where none can."""
    if not isinstance(loop, ast.For) or any(isinstance(node, LEAVING) for node in ast.walk(loop)):
        return None
    sources, indices = dict(_elements(loop.target, loop.iter)), _indices(loop)
    nodes = list(statements(loop.body))
    set_here = {name for node in nodes if not isinstance(node, ast.AugAssign) for name in unit_of(node).sets}
    fixed = (node for node in loop.body if not names_in(node) & set_here)
    return next((text for node in fixed if (text := _written(node, sources, indices))), None)


def _written(node: ast.stmt, sources: Mapping[str, ast.expr], indices: frozenset[str]) -> str | None:
    turns = sources.keys() | indices
    if not indices and len(sources) < 2:  # what a loop goes through alone may as well be a list of tensors
        return _list(node, sources, indices)
    if isinstance(node, ast.If) and len(node.body) == 1 and not node.orelse:  # `if p == t: correct += 1`
        (counted,) = node.body
        if isinstance(counted, ast.AugAssign) and ast.unparse(counted.value) == "1":
            return _sum(counted, node.test, sources, indices)
    if isinstance(node, ast.AugAssign) and names_in(node.value) & turns:
        return _sum(node, node.value, sources, indices)
    return _list(node, sources, indices)


def _list(node: ast.stmt, sources: Mapping[str, ast.expr], indices: frozenset[str]) -> str | None:
    """`found.append(p.item())`."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and called_name(call) == "append" and len(call.args) == 1:
        whole = _whole(call.args[0], sources, indices)
        reads = any(isinstance(part, ast.Call) for part in ast.walk(call.args[0]))
        if whole is not None and reads and isinstance(call.func, ast.Attribute):
            return f"{ast.unparse(call.func.value)}.extend({whole}.tolist())"
    return None


def _sum(
    node: ast.AugAssign, value: ast.expr, sources: Mapping[str, ast.expr], indices: frozenset[str]
) -> str | None:
    whole = _whole(value, sources, indices)
    kept = not names_in(node.target) & (sources.keys() | indices)
    if whole is None or not kept or not isinstance(node.op, ast.Add):
        return None
    return f"{ast.unparse(node.target)} += {whole}.sum().item()"


def _whole(value: ast.expr, sources: Mapping[str, ast.expr], indices: frozenset[str]) -> str | None:
    """The same of all elements, to call a method of; None where it is not simple, or of no element."""
    found = _rewritten(value, sources, indices)
    if found is None or not names_in(value) & (sources.keys() | indices):
        return None
    text = ast.unparse(found)
    return text if isinstance(found, (ast.Name, ast.Attribute, ast.Call)) else f"({text})"


def _rewritten(node: ast.expr, sources: Mapping[str, ast.expr], indices: frozenset[str]) -> ast.expr | None:
    """An expression with whole tensors in place of their elements."""
    if isinstance(node, ast.Name):
        return None if node.id in indices else sources.get(node.id, node)
    if isinstance(node, ast.Subscript):
        at = isinstance(node.slice, ast.Name) and node.slice.id in indices
        return node.value if at and isinstance(node.value, (ast.Name, ast.Attribute)) else None
    if isinstance(node, ast.Call):
        return _called(node, sources, indices)
    if isinstance(node, ast.Constant):
        return node
    if isinstance(node, ast.UnaryOp):
        inner = _rewritten(node.operand, sources, indices)
        return None if inner is None else ast.UnaryOp(node.op, inner)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = (_rewritten(one, sources, indices) for one in (node.left, node.comparators[0]))
        return None if left is None or right is None else ast.Compare(left, node.ops, [right])
    if isinstance(node, ast.BinOp):
        left, right = (_rewritten(one, sources, indices) for one in (node.left, node.right))
        return None if left is None or right is None else ast.BinOp(left, node.op, right)
    return None


def _called(node: ast.Call, sources: Mapping[str, ast.expr], indices: frozenset[str]) -> ast.expr | None:
    """`p.item()` and `int(p)` are `pred`; the largest of a row is that of each: `argmax(1)`."""
    name = called_name(node)
    method = isinstance(node.func, ast.Attribute) and not node.args
    given = (
        node.func.value if isinstance(node.func, ast.Attribute) and method else next(iter(node.args), None)
    )
    if given is None or len(node.args) > 1 or node.keywords or name not in CONVERTING | {"argmax"}:
        return None
    inner = _rewritten(given, sources, indices)
    if inner is None or name in CONVERTING:
        return inner
    if not isinstance(inner, (ast.Name, ast.Attribute)):
        return None
    return ast.Call(ast.Attribute(inner, "argmax", ast.Load()), [ast.Constant(1)], [])


def _elements(target: ast.expr, given: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names that a loop sets in each turn, with what they are elements of."""
    call = called_name(given) if isinstance(given, ast.Call) else None
    parts = target.elts if isinstance(target, ast.Tuple) else []
    if isinstance(given, ast.Call) and call == "zip" and len(parts) == len(given.args):
        for part, of in zip(parts, given.args, strict=True):
            yield from _elements(part, of)
    elif isinstance(given, ast.Call) and call == "enumerate" and len(parts) == 2 and given.args:
        yield from _elements(parts[1], given.args[0])
    elif isinstance(target, ast.Name) and isinstance(given, (ast.Name, ast.Attribute)):
        yield target.id, given


def _indices(loop: ast.For) -> frozenset[str]:
    """The name that counts the turns of a loop."""
    call = called_name(loop.iter) if isinstance(loop.iter, ast.Call) else None
    if call == "range" and isinstance(loop.target, ast.Name):
        return frozenset((loop.target.id,))
    if (
        call == "enumerate"
        and isinstance(loop.target, ast.Tuple)
        and isinstance(loop.target.elts[0], ast.Name)
    ):
        return frozenset((loop.target.elts[0].id,))
    return frozenset()
