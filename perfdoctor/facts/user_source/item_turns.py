"""Tells whether the turns of a loop do the same for one item of a step's data each: ItemTurns.

Where that cannot be told from the source, it is said to be none.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from perfdoctor.facts.user_source.carried import carried
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.known_calls import MOVES, PURE_METHODS, TRAINING_CALLS
from perfdoctor.facts.user_source.loop_statements import unit_of
from perfdoctor.facts.user_source.parse import (
    COMPREHENSIONS,
    LOOPS,
    Function,
    Listing,
    Sources,
    calls,
    header,
    statements,
)
from perfdoctor.model.dataclass import dataclass

BUILTINS = frozenset(dir(builtins)) | {"tqdm", "torch", "itertools"}
OF_TENSORS = (
    PURE_METHODS | MOVES | frozenset("append new_zeros pow select narrow index_add flip roll".split())
)  # methods of data: other ones may be modules
ENDS = (ast.Break, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)  # what a turn finds tells about the next


@dataclass(frozen=True)
class ItemTurns:
    """A `for` loop, or a statement with a comprehension, each turn of which works on one item."""

    file: str
    node: ast.stmt

    @staticmethod
    def around(sources: Sources, file: str, line: int) -> Iterator[ItemTurns]:
        """Those around a line in its function, the outermost first."""
        listing = sources.file(file)
        data = _data(listing, line)
        for loop in listing.loops(line):
            if isinstance(loop, ast.For) and loop.lineno < line and _is_of_items(loop, data):
                yield ItemTurns(file, loop)
        node = listing.comprehension(line)
        if node is not None and _gives_items(node, data):
            yield ItemTurns(file, node)

    @property
    def is_loop(self) -> bool:
        """Whether it is a statement of its own."""
        return isinstance(self.node, LOOPS)

    def covers(self, file: str, line: int) -> bool:
        """Whether a line runs in its turns."""
        first = self.node.lineno + 1 if self.is_loop else self.node.lineno
        return file == self.file and first <= line <= (self.node.end_lineno or 0)

    def begins(self, file: str, line: int) -> bool:
        """Whether it is the line that takes the next item."""
        return (file, line) == (self.file, self.node.lineno)

    def holds(self, frame: Frame) -> bool:
        """The same of a frame."""
        return self.covers(frame.file, frame.line)

    def is_innermost(self, line: int) -> bool:
        """Whether no other loop inside it is around a line."""
        if not isinstance(self.node, ast.For):
            return True
        around = [node for node in statements(self.node.body) if _spans(node, line)]
        return not any(
            isinstance(part, (*LOOPS, *COMPREHENSIONS))
            for node in around
            for part in (node, *(inner for top in header(node) for inner in ast.walk(top)))
        )


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _data(listing: Listing, line: int) -> set[str]:
    """Names around a line that hold a step's data: what a function is given, and what loops around it set."""
    scope = listing.scope(line)
    if scope is None:
        return set()
    data: set[str] = set()
    if isinstance(scope, Function):
        every = scope.args
        given = [*every.posonlyargs, *every.args, *every.kwonlyargs]
        data = {argument.arg for argument in given} - {"self", "cls"}
    for loop in list(listing.loops(line)):
        data |= unit_of(loop).sets
    for node in statements(scope.body):
        unit = unit_of(node)
        if node.lineno <= line and unit.needs & data:
            data |= unit.sets
    return data


def _is_of_items(loop: ast.For, data: set[str]) -> bool:
    """Whether a loop goes through data, hands nothing to its next turn, and calls the same in each."""
    nodes = list(statements(loop.body))
    if any(isinstance(part, ENDS) for part in ast.walk(loop)) or any(
        name in TRAINING_CALLS for node in nodes for _, name in calls(node)
    ):
        return False
    before = data - unit_of(loop).sets
    if not _goes_through(loop.iter, before):
        return False
    return not carried(loop.body) and not _chooses(loop.body, _names(loop.target))


def _gives_items(node: ast.stmt, data: set[str]) -> bool:
    """The same of the only comprehension of a statement, where the rest of it calls nothing of the user's."""
    parts = [part for top in header(node) for part in ast.walk(top)]
    found = [part for part in parts if isinstance(part, COMPREHENSIONS)]
    if len(found) != 1 or len(found[0].generators) != 1 or isinstance(found[0], ast.DictComp):
        return False
    turns, of = found[0].elt, found[0].generators[0]
    inside = set(ast.walk(turns))
    outside = [part for part in parts if isinstance(part, ast.Call) and part not in inside]
    within = [part for part in inside if isinstance(part, ast.Call)]
    if any(map(_may_call_modules, outside)) or not any(map(_may_call_modules, within)):
        return False
    if isinstance(node, LOOPS) or not _goes_through(of.iter, data):
        return False
    return not _chooses([ast.Expr(turns)], _names(of.target))


def _may_call_modules(call: ast.Call) -> bool:
    """Whether a call may be one of a module, or of what calls one."""
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return not (isinstance(call.func, ast.Attribute) and call.func.attr in OF_TENSORS)
    known = root.id in BUILTINS or root.id in ("F", "np")
    return not known and not (isinstance(call.func, ast.Attribute) and call.func.attr in OF_TENSORS)


def _goes_through(iterated: ast.expr, data: set[str]) -> bool:
    """Whether what a loop goes through is data, and nothing of the model's."""
    unit = unit_of(ast.Expr(iterated))
    names = unit.needs - BUILTINS
    return bool(names) and names <= data and not any(name.startswith("self.") for name in names)


def _names(target: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}


def _chooses(body: Sequence[ast.stmt], items: set[str]) -> bool:
    """Whether what is called depends on the turn: each may have weights of its own."""
    turned = set(items)
    for node in statements(list(body)):
        unit = unit_of(node)
        if unit.needs & turned:
            turned |= unit.sets
    for node in statements(list(body)):
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and _is_chosen(part.func, turned):
                return True
            if isinstance(part, ast.Subscript) and _is_own(part.value) and _names(part.slice) & turned:
                return True
    return False


def _is_chosen(function: ast.expr, turned: set[str]) -> bool:
    """Whether what is called is an item, or a part of one, and no method of a tensor."""
    if isinstance(function, ast.Attribute) and function.attr in OF_TENSORS:
        return False
    return bool(_names(function) & turned)


def _is_own(value: ast.expr) -> bool:
    """Whether it is a part of the model: `self.heads`."""
    while isinstance(value, ast.Attribute):
        value = value.value
    return isinstance(value, ast.Name) and value.id == "self"
