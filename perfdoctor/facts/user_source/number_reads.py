"""Tells which lines of a loop read tensors number by number: `correct += (p == t).item()`."""

from __future__ import annotations

import ast

from perfdoctor.facts.user_source.loop_statements import unit_of
from perfdoctor.facts.user_source.parse import Listing, calls, header, names_in, statements

READS = "item"
# What is done with a number, or on the way to it, and costs no more than reading it.
SMALL = frozenset(
    "item argmax argmin max min abs eq ne float long int bool len append squeeze cpu detach round".split()
)


def reading_lines(loop: ast.AST, line: int, listing: Listing) -> frozenset[int]:
    """Of a loop, or a comprehension at a line, the lines that read elements, or only handle such.

    None of them where no statement of it reads one.
    """
    turns, body = _targets(loop), getattr(loop, "body", None)
    here = listing.statement(line)
    nodes = list(statements(body)) if body is not None else [here] if here is not None else []
    if not any(_reads(node, turns) for node in nodes):
        return frozenset()
    turns |= {name for node in nodes if _reads(node, turns) for name in unit_of(node).sets}
    found = {getattr(loop, "lineno", line)}
    for node in nodes:
        if _reads(node, turns) or (_needs(node) & turns and all(name in SMALL for _, name in calls(node))):
            found.update(_lines(node))
    return frozenset(found)


def _reads(node: ast.stmt, turns: set[str]) -> bool:
    """Whether a statement takes single numbers out of tensors: `x[i].item()`, or `row.item()` of each."""
    read = (
        inner.func.value
        for part in header(node)
        for inner in ast.walk(part)
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == READS
    )
    return any(isinstance(value, ast.Subscript) or _is_small(value, turns) for value in read)


def _is_small(value: ast.expr, turns: set[str]) -> bool:
    """Whether little is done with an element of this turn before it is read."""
    called = {name for _, name in calls(ast.Expr(value))}
    return bool(names_in(value) & turns) and called <= SMALL


def _targets(loop: ast.AST) -> set[str]:
    """The names that a loop gives a new value in each turn."""
    generators = getattr(loop, "generators", [loop])
    targets = [one.target for one in generators if hasattr(one, "target")]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _needs(node: ast.stmt) -> set[str]:
    return {name for part in header(node) for name in names_in(part)}


def _lines(node: ast.stmt) -> range:
    """The lines of a statement, or of the header of one with others below it."""
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return range(node.lineno, max(last, node.lineno) + 1)
