"""The line that repeats the rows which a call is given, as the user's file has it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.user_source.origins import SourceFile, base_name, called_name, parameters
from perfdoctor.facts.user_source.parse import Function, Sources, header
from perfdoctor.model.measured import Location

REPEATING = frozenset(
    "broadcast_to expand expand_as gather index_select repeat repeat_interleave take take_along_dim"
    " tile".split()
)
DEPTH = 4  # names that a value may go through


def repeating_line(sources: Sources, call: Location) -> Location | None:
    """Where rows are repeated that the call on a line is given; None where its file does not show it."""
    listing = sources.file(call.file)
    node, scope = listing.statement(call.line), listing.scope(call.line)
    if node is None or scope is None:
        return None
    given = [
        value for inner in _calls(node) for value in (*inner.args, *(word.value for word in inner.keywords))
    ]
    found = _repeats(given)
    if found is None:
        found = _traced(SourceFile(listing), scope, given, call.line)
    return (
        sources.at(call.file, found.lineno, call.function if _within(scope, found) else None)
        if found
        else None
    )


def _calls(node: ast.stmt) -> Iterator[ast.Call]:
    return (inner for part in header(node) for inner in ast.walk(part) if isinstance(inner, ast.Call))


def _repeats(values: list[ast.expr]) -> ast.expr | None:
    """What repeats rows in some expressions: a call, or an index that is a tensor's name."""
    nodes = [inner for value in values for inner in ast.walk(value)]
    for inner in nodes:
        if isinstance(inner, ast.Call) and called_name(inner) in REPEATING:
            return inner
    for inner in nodes:
        if isinstance(inner, ast.Subscript) and isinstance(inner.slice, (ast.Name, ast.Attribute)):
            return inner
    return None


def _traced(file: SourceFile, scope: ast.AST, given: list[ast.expr], line: int) -> ast.expr | None:
    """The same of what the names in these expressions were set to, nearest first."""
    own = set(parameters(scope)) if isinstance(scope, Function) else set()
    seen: set[str] = set()
    values = given
    for _ in range(DEPTH):
        names = {name for value in values for name in _names(value)} - seen
        seen |= names
        origins = [value for name in sorted(names) for value in file.origins.get(name, ())]
        before = [value for value in origins if _within(scope, value) and value.lineno <= line]
        # a parameter is also set where the function is called
        called = [value for name in sorted(names & own) for value in file.origins.get(name, ())]
        values = sorted(before, key=lambda value: -value.lineno) or called
        found = _repeats(values)
        if found is not None or not values:
            return found
        values = values + called
    return None


def _names(value: ast.expr) -> Iterator[str]:
    called = {id(inner.func) for inner in ast.walk(value) if isinstance(inner, ast.Call)}
    for inner in ast.walk(value):
        if isinstance(inner, ast.Name) and id(inner) not in called:
            name = base_name(inner)
            if name:
                yield name


def _within(scope: ast.AST, value: ast.expr) -> bool:
    begin, end = getattr(scope, "lineno", 0), getattr(scope, "end_lineno", None)
    return begin <= value.lineno and (end is None or value.lineno <= end)
