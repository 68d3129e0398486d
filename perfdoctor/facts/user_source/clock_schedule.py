"""Finds where a script lets a clock decide what it does: how long it trains, when it validates or saves.

By the data flow of one file: what a clock returned goes into names, and one of these into a comparison that
an `if` or a `while` goes by. What only prints or logs by the clock schedules nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.user_source.parse import Listing, header, logs, statements

CLOCKS = frozenset(
    "time monotonic perf_counter time_ns monotonic_ns perf_counter_ns now utcnow default_timer".split()
)
MODULES = frozenset("time datetime timeit".split())
Branch = ast.If | ast.While


def scheduling_line(listing: Listing) -> int | None:
    """The first line at which a clock decides what is done; None where none does, or it is no Python."""
    if listing.tree is None:
        return None
    clocks = _Clocks(listing.tree)
    lines = (
        node.lineno
        for node in ast.walk(listing.tree)
        if isinstance(node, Branch) and clocks.decide(node.test) and not _only_logs(node, clocks)
    )
    return min(lines, default=None)


class _Clocks:
    """What reads a clock in a file, and the names that hold what was read."""

    def __init__(self, tree: ast.Module) -> None:
        self._modules: set[str] = set()  # under the names that the file gives them
        self._functions: set[str] = set()
        self._held: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._modules |= {each.asname or each.name for each in node.names if each.name in MODULES}
            elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
                for each in node.names:
                    (self._functions if each.name in CLOCKS else self._modules).add(each.asname or each.name)
        before = -1
        while before < len(self._held):
            before = len(self._held)
            for node in ast.walk(tree):
                for target, value in _assigned(node):
                    if self.told_by(value):
                        self._held.add(ast.unparse(target))

    def told_by(self, value: ast.expr) -> bool:
        """Whether a value comes from a clock: a reading, a difference of readings, a name that holds one."""
        return any(
            (isinstance(node, ast.Call) and self._reads(node.func))
            or (isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in self._held)
            for node in ast.walk(value)
        )

    def decide(self, test: ast.expr) -> bool:
        """Whether a condition compares what a clock told with anything but None."""
        return any(
            self.told_by(node)
            for node in ast.walk(test)
            if isinstance(node, ast.Compare)
            and not any(isinstance(each, ast.Constant) and each.value is None for each in node.comparators)
        )

    def _reads(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name):
            return function.id in self._functions
        if not isinstance(function, ast.Attribute) or function.attr not in CLOCKS:
            return False
        return ast.unparse(function.value).partition(".")[0] in self._modules


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value


def _only_logs(branch: Branch, clocks: _Clocks) -> bool:
    """Whether all that a branch does is to print or log, and to note the time and its counts anew."""
    if isinstance(branch, ast.While) or branch.orelse:
        return False
    return all(logs(node) or _notes(node, clocks) for node in statements(branch.body))


def _notes(node: ast.stmt, clocks: _Clocks) -> bool:
    """Whether a statement only keeps a reading or a plain value."""
    if isinstance(node, ast.If):
        return not any(isinstance(each, ast.Call) for part in header(node) for each in ast.walk(part))
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) or node.value is None:
        return isinstance(node, ast.Pass)
    called = any(isinstance(each, ast.Call) for each in ast.walk(node.value))
    return not called or clocks.told_by(node.value)
