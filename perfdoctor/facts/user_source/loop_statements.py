"""Tells which names a statement sets, needs and changes: LoopStatement."""

from __future__ import annotations

import ast
from collections.abc import Set
from functools import lru_cache

from perfdoctor.facts.user_source.known_calls import RECORDING_METHODS, REFERENCES
from perfdoctor.facts.user_source.origins import SELVES, base_name, called_name, dotted
from perfdoctor.facts.user_source.parse import Function, header, logs
from perfdoctor.model.dataclass import dataclass

TO_NUMBERS = {"item", "tolist", "numpy"}  # tensor methods that give what Python and NumPy work on
CONVERTING = {"int", "float", "bool", "np.array", "np.asarray", "numpy.array", "numpy.asarray"}  # the same
# They overwrite what they are given first: `rng.shuffle(order)`, `np.copyto(rows, data)`.
FILLING = {"setattr", "shuffle", "copyto", "place", "putmask", "fill_diagonal", "readinto"}
HANDING_OUT = REFERENCES | {"setdefault"}


@dataclass(frozen=True)
class LoopStatement:
    """A statement, or the header of a compound one, with the names it sets and needs."""

    node: ast.stmt
    sets: frozenset[str]
    needs: frozenset[str]
    changes: frozenset[str]  # names it calls a method of as a statement: `rows.append(x)`
    leaves_graph: bool  # takes plain numbers out of a tensor
    numbers_of: frozenset[str]  # names it needs as plain numbers only: `logits` in `int(logits.argmax())`

    @property
    def gives_numbers(self) -> bool:
        """Whether all that it works on is plain numbers."""
        return self.leaves_graph or (bool(self.numbers_of) and self.needs <= self.numbers_of)

    def leaves(self, tensors: Set[str]) -> bool:
        """Whether it takes plain numbers out of these tensors, and else works on none of them."""
        return self.leaves_graph or self.needs & tensors <= self.numbers_of


def items_set(node: ast.stmt) -> set[str]:
    """The names whose items a statement sets: `priorities[rows] = errors`."""
    stored = [
        inner
        for part in header(node)
        for inner in ast.walk(part)
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store)
    ]
    return {name for inner in stored if (name := base_of(inner))}


def parts_set(node: ast.stmt) -> set[str]:
    """The names of which a statement sets an item or an attribute: `rows[i] = x`, `graph.pos = points`."""
    return {name for part in header(node) for inner in ast.walk(part) if (name := _part_set(inner))}


def _part_set(node: ast.AST) -> str | None:
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        name = base_name(node.value)
        return name if name not in SELVES else None  # `self.rows = x` sets the whole of `self.rows`
    return None


def attributes_read(node: ast.stmt) -> set[str]:
    """What a statement reads of objects: `agent.memory` of `agent.memory.sample(32)`."""
    nodes = [inner for part in header(node) for inner in ast.walk(part) if isinstance(inner, ast.Attribute)]
    return {name for inner in nodes if (name := _attribute(inner))}


def attributes_changed(node: ast.stmt) -> set[str]:
    """What a statement changes of objects, by a method or by items: `memory.priorities[rows] = gap`."""
    value = node.value if isinstance(node, ast.Expr) else None
    changed = [
        inner.value
        for part in header(node)
        for inner in ast.walk(part)
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store)
    ]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        changed.append(value.func.value)
    return {name for inner in changed if isinstance(inner, ast.Attribute) and (name := _attribute(inner))}


def _attribute(node: ast.Attribute) -> str | None:
    return f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else None


@lru_cache(maxsize=4096)  # several facts look at the same loops
def unit_of(node: ast.stmt) -> LoopStatement:
    """The names that a statement, or the header of a compound one, sets and needs."""
    sets: set[str] = set()
    needs: set[str] = set()
    parts: list[ast.AST] = [node] if isinstance(node, Function) else header(node)
    for part in parts:
        for inner in ast.walk(part):
            _names(inner, sets, needs)
    apart = _needed_apart(parts)
    if isinstance(node, ast.AugAssign):
        needs |= sets
        apart |= sets
    if isinstance(node, Function):
        sets = {node.name}
    changes = _changed(node)
    leaves = any(takes_numbers(inner) for part in parts for inner in ast.walk(part))
    return LoopStatement(
        node, frozenset(sets), frozenset(needs), frozenset(changes), leaves, frozenset(needs - apart)
    )


def takes_numbers(node: ast.AST) -> bool:
    """Whether a call takes what Python and NumPy work on out of a tensor."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TO_NUMBERS
    )


def _needed_apart(parts: list[ast.AST]) -> set[str]:
    """The names that are needed other than to be made plain numbers."""
    sets: set[str] = set()
    needs: set[str] = set()
    waiting = list(parts)
    for node in waiting:  # which grows meanwhile
        if not (isinstance(node, ast.Call) and dotted(node.func) in CONVERTING):
            _names(node, sets, needs)
            waiting += ast.iter_child_nodes(node)
    return needs


def _names(node: ast.AST, sets: set[str], needs: set[str]) -> None:
    if isinstance(node, ast.Name) and node.id != "self":
        (needs if isinstance(node.ctx, ast.Load) else sets).add(node.id)
    elif isinstance(node, ast.Attribute):
        if node.attr == "grad":
            needs.add(".grad")
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            (needs if isinstance(node.ctx, ast.Load) else sets).add(f"self.{node.attr}")
    filled = [_part_set(node)]  # `rows[i] = x` sets rows
    if isinstance(node, ast.keyword) and node.arg == "out":
        filled.append(base_of(node.value))
    elif isinstance(node, ast.Call) and called_name(node) in FILLING and node.args:
        filled.append(base_of(node.args[0]))
    sets.update(name for name in filled if name)


def _changed(node: ast.stmt) -> set[str]:
    """The name that a statement calls a method of: `rows.append(x)`, but not `bar.set_postfix(loss=x)`."""
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and not logs(node, node.value.func.attr)
    ):
        name = base_of(_handed_out_by(node.value.func.value))
        return {name} if name else set()
    return set()


def _handed_out_by(node: ast.expr) -> ast.expr:
    """What a chain of calls works on: `h` of `h.mul_(a)`, `rows` of `rows.setdefault(key, [])`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if not (node.func.attr.endswith("_") or node.func.attr in HANDING_OUT):
            break
        node = node.func.value
    return node


def handed(node: ast.stmt) -> set[str]:
    """The names that a statement hands to a call that stands alone, which may change them: `update(h, x[t])`.

    What logs leaves them as they are, and so does what only takes them in: `rows.append(x)`.
    """
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or logs(node):
        return set()
    if isinstance(call.func, ast.Attribute) and call.func.attr in RECORDING_METHODS:
        return set()
    return {name for value in call.args if (name := base_of(value)) and not isinstance(value, ast.Subscript)}


def base_of(node: ast.expr) -> str | None:
    """`rows` of `rows[i][j]`, `self.rows` of `self.rows[i]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return None
