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
    node = listing.statement(call.line)
    if node is None:
        return None
    given = [
        value for inner in _calls(node) for value in (*inner.args, *(word.value for word in inner.keywords))
    ]
    found = _repeats(given)
    if found is None:
        found = _traced(listing.once(SourceFile), given)
    if found is None:
        return None
    function = listing.scope(found.lineno)
    return sources.at(call.file, found.lineno, function.name if isinstance(function, Function) else None)


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


def _traced(file: SourceFile, values: list[ast.expr]) -> ast.expr | None:
    """The same of what the names in these expressions were set to, nearest first."""
    seen: set[str] = set()
    for _ in range(DEPTH):
        found: list[ast.expr] = []
        for value in values:
            names = sorted(set(_names(value)) - seen)
            seen.update(names)
            found += [origin for name in names for origin in _origins(file, value, name)]
        values = sorted(found, key=lambda origin: -origin.lineno)
        repeating = _repeats(values)
        if repeating is not None or not values:
            return repeating
    return None


def _origins(file: SourceFile, value: ast.expr, name: str) -> list[ast.expr]:
    """What a name in an expression was set to before in its function; for a parameter, by its callers."""
    scope = file.listing.scope(value.lineno)
    origins = file.origins.get(name, [])
    own = [one for one in origins if file.listing.scope(one.lineno) is scope and one.lineno < value.lineno]
    is_parameter = isinstance(scope, Function) and name in parameters(scope)
    return own or (origins if is_parameter else [])


def _names(value: ast.expr) -> Iterator[str]:
    called = {id(inner.func) for inner in ast.walk(value) if isinstance(inner, ast.Call)}
    for inner in ast.walk(value):
        if isinstance(inner, ast.Name) and id(inner) not in called:
            name = base_name(inner)
            if name:
                yield name
