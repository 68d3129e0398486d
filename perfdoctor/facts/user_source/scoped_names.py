"""Gives local variables of different functions different names.

Origins and effects follow names by their text, and would take `total` of one function and `total` of another
one for one variable. Parameters keep their names, since calls give them by name; so do attributes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from perfdoctor.facts.user_source.origins import SELVES, parameters
from perfdoctor.facts.user_source.parse import LOGGERS, Function, Listing

MARK = "\u00b7"  # no key types it
KEPT = LOGGERS | SELVES  # which mean something by themselves


def scoped(listing: Listing) -> Listing:
    """The same file, parsed anew, in which each local name bears the line of its function as well."""
    found = Listing(listing.lines)
    for function in found.scopes:  # outer ones first
        declared = (node.names for node in ast.walk(function) if isinstance(node, (ast.Global, ast.Nonlocal)))
        names = {node.id for node in _own(function) if not isinstance(node.ctx, ast.Load)}
        _rename(
            function, names - KEPT - set(parameters(function)) - {name for each in declared for name in each}
        )
    return found


def original(text: str) -> str:
    """A piece of the file's text with the names as they are there."""
    return re.sub(rf"{MARK}\d+", "", text)


def _own(function: Function) -> Iterator[ast.Name]:
    """The names in a function, but for those in functions and classes inside."""
    pending: list[ast.AST] = [*function.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            yield node
        if not isinstance(node, (*Function.__args__, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))


def _rename(function: Function, names: set[str]) -> None:
    pending: list[tuple[ast.AST, set[str]]] = [(node, names) for node in function.body]
    while pending:
        node, left = pending.pop()
        if isinstance(node, ast.Name) and node.id in left:
            node.id = f"{node.id}{MARK}{function.lineno}"
        if isinstance(node, Function | ast.Lambda):
            left = left - set(parameters(node))
        pending.extend((inner, left) for inner in ast.iter_child_nodes(node))
