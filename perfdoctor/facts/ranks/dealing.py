"""Finds the lines that deal data out to the ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Sources, names_in
from perfdoctor.model.measured import Location

RANK = re.compile(r"(^|_)rank(_|$|id)", re.IGNORECASE)  # names that hold a rank, or tell it
HELD_OUT = re.compile(r"(^|_)(val|valid|validation|eval|test|dev)(_|$)", re.IGNORECASE)
DEALERS = frozenset(("DistributedSampler", "split_dataset_by_node", "shard"))
NUMBERS = frozenset(("range", "arange"))  # of items, from one to another
# Into pieces, of which each rank takes one.
CUTTERS = frozenset(("chunk", "split", "array_split", "tensor_split", "random_split"))
SHOWN = 2


def dealing_lines(files: Iterable[str], sources: Sources) -> tuple[Location, ...]:
    """Lines that give each rank a part of the training data: pieces first, then those that deal in turn."""
    found = [line for file in files for line in _of_file(file, sources)]
    return tuple(at for _, at in sorted(found, key=lambda one: one[0])[:SHOWN])


def _of_file(file: str, sources: Sources) -> Iterator[tuple[int, Location]]:
    """(order, line) of what deals in one file."""
    tree = sources.file(file).tree
    seen = set()
    for statement in ast.walk(tree) if tree is not None else ():
        if not isinstance(statement, ast.stmt) or _is_held_out(statement):
            continue
        for node in _expressions(statement):
            order = _order(node)
            if order is not None and node.lineno not in seen:
                seen.add(node.lineno)
                yield order, Location(file, node.lineno, None, sources.text(file, node.lineno))


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, those of statements inside it left out."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield from (node for node in ast.walk(child) if isinstance(node, ast.expr))


def _is_held_out(statement: ast.stmt) -> bool:
    """Whether a statement is about data that nothing is trained on."""
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return any(HELD_OUT.search(name) for target in targets for name in names_in(target))


def _order(node: ast.expr) -> int | None:
    """0 for one piece by rank, 1 for every n-th from the rank on, 2 for what a library deals; else None."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        ends = [end for end in (node.slice.lower, node.slice.upper) if end is not None]
        return (1 if node.slice.step is not None else 0) if any(map(_tells_rank, ends)) else None
    if isinstance(node, ast.Subscript):
        cut = isinstance(node.value, ast.Call) and called_name(node.value) in CUTTERS
        return 0 if cut and _tells_rank(node.slice) else None
    if isinstance(node, ast.Compare):  # `index % world == rank`
        remainder = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mod)
        return 1 if remainder and any(map(_tells_rank, node.comparators)) else None
    return _order_of_call(node) if isinstance(node, ast.Call) else None


def _order_of_call(call: ast.Call) -> int | None:
    name = called_name(call)
    if name in NUMBERS and any(map(_tells_rank, call.args)):
        return 1 if len(call.args) > 2 else 0
    if name == "islice" and any(map(_tells_rank, call.args[1:])):
        return 1
    return 2 if name in DEALERS else None


def _tells_rank(node: ast.expr) -> bool:
    return any(RANK.search(name) for name in names_in(node))
