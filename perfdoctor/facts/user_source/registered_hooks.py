"""Finds where a module's hook is registered, again and again, that nothing removes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from perfdoctor.facts.user_source.parse import Function, Listing, Sources, names_in
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.facts.user_source.wrapped_again import called_again
from perfdoctor.model.measured import Location

REGISTERS = re.compile(r"register_\w*hook$")


def never_removed(sources: Sources, at: Location, files: Iterable[str] = ()) -> Location | None:
    """The line that registers the hook that a line is in; None where it is in none, or hooks are removed.

    The function itself is registered, or what a function returns that it is written in. What is registered
    once stays one hook: the line is in a loop, or in what is called in one, in this file or in `files`.
    """
    listing = sources.file(at.file)
    if listing.tree is None:
        return None
    made_in = {
        scope.name for scope in listing.scopes if scope.body[0].lineno <= at.line <= (scope.end_lineno or 0)
    }
    called = [node for node in ast.walk(listing.tree) if isinstance(node, ast.Call)]
    methods = [(node.func.attr, node) for node in called if isinstance(node.func, ast.Attribute)]
    if any(name == "remove" and not node.args for name, node in methods):  # a list's takes what to remove
        return None
    again = called_again(sources.file(file) for file in project_files((at.file, *files), sources))
    for name, node in methods:
        given = (*node.args, *(keyword.value for keyword in node.keywords))
        if not REGISTERS.match(name) or not any(made_in & names_in(part) for part in given):
            continue
        if _runs_in_loop(listing, node) or _caller(listing, node) in again:
            return sources.at(at.file, node.lineno)
    return None


def _runs_in_loop(listing: Listing, call: ast.Call) -> bool:
    """Whether it is in a loop that goes through anything but what it is about, such as the modules."""
    return any(
        not names_in(call)
        & {
            name.id
            for name in ast.walk(loop)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        for loop in listing.loops(call.lineno)
    )


def _caller(listing: Listing, call: ast.Call) -> str | None:
    """What has to be called for a call to run: the function around it, or the class that it initialises."""
    scope = listing.scope(call.lineno)
    if not isinstance(scope, Function):
        return None
    owners = (node for node in ast.walk(listing.tree or scope) if isinstance(node, ast.ClassDef))
    owner = next((node.name for node in owners if scope in node.body), None)
    return owner if scope.name == "__init__" else scope.name
