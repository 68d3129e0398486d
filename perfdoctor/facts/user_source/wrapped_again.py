"""Finds the lines that wrap a dataset in another one of torch's, again and again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from perfdoctor.facts.user_source.growing_names import written
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Function, Listing, Sources, calls, header, statements
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.model.measured import Location

WRAPPERS = frozenset(("ConcatDataset", "Subset", "random_split"))


def wrapping_lines(sources: Sources, files: Iterable[str]) -> tuple[Location, ...]:
    """Lines in loops, or in functions called in loops, that wrap; those that wrap what they set, if any.

    `files`, and what of the user's they import.
    """
    listings = {name: sources.file(name) for name in project_files(files, sources)}
    again = called_again(listings.values())
    found = [
        (sources.at(name, node.lineno, function), _sets_what_it_takes(node))
        for name, listing in listings.items()
        for function, node in _each(listing)
        if _wraps(node) and (function in again or listing.outermost_loop(node.lineno) is not None)
    ]
    return tuple(at for at, same in found if same) or tuple(at for at, _ in found)


def _each(listing: Listing) -> Iterator[tuple[str | None, ast.stmt]]:
    """The statements of a file, each with the function that it is in."""
    for scope in (*([listing.tree] if listing.tree is not None else ()), *listing.scopes):
        name = scope.name if isinstance(scope, Function) else None
        yield from ((name, node) for node in statements(scope.body))


def called_again(listings: Iterable[Listing]) -> set[str]:
    """The names of what is called in loops, and of what that calls in turn."""
    again, outside = set[str](), list[tuple[str | None, set[str]]]()
    for listing in listings:
        for function, node in _each(listing):
            names = {name for _, name in calls(node)}
            if listing.outermost_loop(node.lineno) is not None:
                again |= names
            else:
                outside.append((function, names))
    known = -1
    while known != len(again):
        known = len(again)
        again = again.union(*(names for function, names in outside if function in again))
    return again


def _wraps(node: ast.stmt) -> bool:
    return any(name in WRAPPERS for _, name in calls(node))


def _sets_what_it_takes(node: ast.stmt) -> bool:
    """Whether a statement wraps what it sets itself: `pool = Subset(pool, rest)`."""
    if not isinstance(node, ast.Assign):
        return False
    targets = {written(inner) for target in node.targets for inner in ast.walk(target)}
    wrapped = (
        given
        for part in header(node)
        for call in ast.walk(part)
        if isinstance(call, ast.Call) and called_name(call) in WRAPPERS
        for given in (*call.args[:1], *(keyword.value for keyword in call.keywords))
    )
    taken = {written(inner) for given in wrapped for inner in ast.walk(given)}
    return bool(targets & taken - {None, "self"})
