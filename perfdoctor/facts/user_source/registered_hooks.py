"""Finds where a module's hook is registered that nothing removes again."""

from __future__ import annotations

import ast
import re

from perfdoctor.facts.user_source.parse import Sources, names_in
from perfdoctor.model.measured import Location

REGISTERS = re.compile(r"register_\w*hook$")


def never_removed(sources: Sources, at: Location) -> Location | None:
    """The line that registers the hook that a line is in; None where it is in none, or hooks are removed.

    The function itself is registered, or what a function returns that it is written in.
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
    for name, node in methods:
        if listing.scope(node.lineno) is listing.tree and listing.outermost_loop(node.lineno) is None:
            continue  # it runs once
        given = (*node.args, *(keyword.value for keyword in node.keywords))
        if REGISTERS.match(name) and any(made_in & names_in(part) for part in given):
            return sources.at(at.file, node.lineno)
    return None
