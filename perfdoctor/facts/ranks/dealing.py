"""Finds the lines that deal data out to the ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Sources, names_in
from perfdoctor.model.measured import Location

RANK = re.compile(r"(^|_)rank(_|$|id)", re.IGNORECASE)  # names that hold a rank, or tell it
# The rank of a matrix has the same name: that of a process is used where names of its group are known, too.
OF_MATRIX = re.compile(r"(lora|low|matrix|tensor|max|top|effective)_?rank", re.IGNORECASE)
OF_PROCESS = re.compile(
    r"world|replicas|(num|n)_(shards|ranks)|(get|local|global|node|dp)_?rank", re.IGNORECASE
)
HELD_OUT = re.compile(r"(^|_)(val|valid|validation|eval|test|dev)(_|$)", re.IGNORECASE)
DEALERS = frozenset(("DistributedSampler", "split_dataset_by_node", "shard"))
NUMBERS = frozenset(("range", "arange"))  # of items, from one to another
# Into pieces, of which each rank takes one.
CUTTERS = frozenset(("chunk", "split", "array_split", "tensor_split", "random_split", "reshape", "view"))
LIBRARY = 2
SHOWN = 2


def dealing_lines(files: Iterable[str], sources: Sources) -> tuple[Location, ...]:
    """Lines that give each rank a part of the training data: pieces first, then those that deal in turn."""
    found = [line for file in files for line in _of_file(file, sources)]
    return tuple(at for _, at in sorted(found, key=lambda one: one[0])[:SHOWN])


def _of_file(file: str, sources: Sources) -> Iterator[tuple[int, Location]]:
    """(order, line) of what deals in one file."""
    tree = sources.file(file).tree
    seen = set()
    for statement, within in _statements(tree, tree) if tree is not None else ():
        for node in _expressions(statement):
            order = _order(node)
            dealt = order == LIBRARY or (order is not None and _knows_processes(within))
            if order is not None and dealt and node.lineno not in seen:
                seen.add(node.lineno)
                yield order, sources.at(file, node.lineno)


def _statements(node: ast.AST, within: ast.AST) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """Statements about data that are trained on, with the class or else the function that they stand in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            if _is_held_out(child):
                continue
            yield child, within
        inner = isinstance(child, (ast.ClassDef, ast.FunctionDef)) and not isinstance(within, ast.ClassDef)
        yield from _statements(child, child if inner else within)


def _knows_processes(within: ast.AST) -> bool:
    """Whether a class, a function or a module has names of a group of processes."""
    arguments = {
        node.arg for node in ast.walk(within) if isinstance(node, (ast.arg, ast.keyword)) and node.arg
    }
    return any(OF_PROCESS.search(name) for name in names_in(within) | arguments)


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, those of statements inside it left out."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield from (node for node in ast.walk(child) if isinstance(node, ast.expr))


def _is_held_out(statement: ast.stmt) -> bool:
    """Whether a statement, or the function that it defines, is about data that nothing is trained on."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return HELD_OUT.search(statement.name) is not None and "train" not in statement.name
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return any(HELD_OUT.search(name) for target in targets for name in names_in(target))


def _order(node: ast.expr) -> int | None:
    """0 for one piece by rank, 1 for every n-th from the rank on, LIBRARY for what one deals; else None."""
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
    return LIBRARY if name in DEALERS else None


def _tells_rank(node: ast.expr) -> bool:
    return any(RANK.search(name) and not OF_MATRIX.search(name) for name in names_in(node))
