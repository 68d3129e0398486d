"""Finds what a line works on that other lines make longer and longer, such as a list of all losses so far."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.user_source.parse import Listing, Sources, header
from perfdoctor.model.measured import Location

ADDING = frozenset("append appendleft extend add insert update setdefault push".split())
JOINING = frozenset("append cat concat concatenate extend hstack r_ row_stack stack vstack".split())


def growing_name(sources: Sources, at: Location) -> tuple[str, Location] | None:
    """The name that the statement at a line reads and that grows, and the line that adds to it.

    The line itself counts where it makes a longer copy each time, not where it appends.
    """
    listing = sources.file(at.file)
    node = listing.statement(at.line)
    if node is None:
        return None
    read = {name for part in header(node) for inner in ast.walk(part) if (name := written(inner)) is not None}
    for name, line in _grown(listing):
        if name in read and (line != node.lineno or isinstance(node, ast.Assign)):
            return name, sources.at(at.file, line, at.function)
    return None


def written(node: ast.AST) -> str | None:
    """`total`, `self.total`, and of `history["loss"]` the name before the bracket."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = written(node.value)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _grown(listing: Listing) -> Iterator[tuple[str, int]]:
    """Names that statements of a file make longer, with the lines."""
    for node in ast.walk(listing.tree) if listing.tree is not None else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            name = written(function.value) if isinstance(function, ast.Attribute) else None
            if isinstance(function, ast.Attribute) and function.attr in ADDING and name is not None:
                yield name, node.lineno
        elif isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.ListComp)):
            if (name := written(node.target)) is not None:
                yield name, node.lineno
        elif isinstance(node, ast.Assign) and _joins(node.value):
            parts = {name for inner in ast.walk(node.value) if (name := written(inner)) is not None}
            for target in node.targets:
                if (name := written(target)) in parts and name is not None:
                    yield name, node.lineno


def _joins(value: ast.expr) -> bool:
    """Whether a value is put together from others: `torch.cat([bank, keys])`, `seen + [loss]`."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Add) and isinstance(value.right, (ast.List, ast.ListComp))
    if not isinstance(value, ast.Call):
        return False
    called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", None)
    return called in JOINING
