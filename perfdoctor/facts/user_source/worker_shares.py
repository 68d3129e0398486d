"""Finds where loader workers choose their share of a stream, and what runs for all samples before that.

A worker tells its own samples by their numbers (`index % workers == id`, in a loop, a comprehension or a
`filter`) or by steps (`islice`, slices). Names are followed within one function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from perfdoctor.facts.user_source.origins import bound, called_name
from perfdoctor.facts.user_source.parse import (
    COMPREHENSIONS,
    LOOPS,
    Function,
    Listing,
    header,
    names_in,
    statements,
)
from perfdoctor.model.dataclass import dataclass

ASKED = "get_worker_info"
WORKER = re.compile(r"(^|_)workers?(_|$|id)", re.IGNORECASE)  # names that hold a worker's number, or how many
KEEPS = frozenset({"append", "put"})
TOLD_BY = frozenset({ASKED, "getattr", "int", "max", "get_rank", "get_world_size"})


@dataclass(frozen=True)
class SharingLoop:
    """Lines that run for the samples of all workers; and functions that do, on whatever line."""

    first: int
    last: int
    filter: int
    makers: frozenset[str] = frozenset()


def sharing_loops(listing: Listing) -> tuple[SharingLoop, ...]:
    """The places of a file that go through the samples of all workers and keep those of one."""
    verdicts = frozenset(scope.name for scope in listing.scopes if _Chooser(listing, scope).returns_choice())
    return tuple(loop for scope in listing.scopes for loop in _Chooser(listing, scope, verdicts).loops())


class _Chooser:
    """One function, and what in it chooses the samples of a worker."""

    def __init__(self, listing: Listing, function: Function, verdicts: frozenset[str] = frozenset()) -> None:
        self._listing, self._function = listing, function
        self._verdicts = verdicts  # functions of the file that return whether a sample is this worker's
        self._own = list(statements(function.body))
        self._told = {ASKED}  # names that hold a worker's number, or how many there are
        self._turns: set[str] = set()  # names that hold whose turn it is: `index % workers`
        self._chosen: set[str] = set()  # names that hold whether it is this worker's
        found = 0
        while found < (found := self._follow()):
            pass

    def _follow(self) -> int:
        """Follow names through assignments; how many are known now."""
        for node in self._own:
            if isinstance(node, ast.Assign):
                names = _names_set(node)
                if self._is_verdict(node.value):
                    self._chosen |= names
                elif self._is_turn(node.value):
                    self._turns |= names
                elif _is_told(node.value) and self._tells(node.value):
                    self._told |= names
            elif isinstance(node, ast.For) and any(map(self._cycles, ast.walk(node.iter))):
                self._turns |= set(_stored(node.target))
        return len(self._told) + len(self._turns) + len(self._chosen)

    def _tells(self, node: ast.AST) -> bool:
        names = names_in(node)
        return bool(names & self._told) or any(map(WORKER.search, names))

    def _cycles(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and called_name(node) == "cycle" and self._tells(node)

    def _remainder_of(self, node: ast.AST) -> ast.expr | None:
        """What is divided by what tells the number of workers."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and self._tells(node.right):
            return node.left
        return None

    def _is_turn(self, node: ast.AST) -> bool:
        return self._remainder_of(node) is not None or (isinstance(node, ast.Name) and node.id in self._turns)

    def _chooses(self, test: ast.AST) -> bool:
        """Whether it says of a sample whether it is this worker's."""
        return any(map(self._decides, ast.walk(test)))

    def _is_verdict(self, value: ast.expr) -> bool:
        """Whether a value is a choice itself, not what was chosen."""
        if isinstance(value, ast.Call):
            return called_name(value) in self._verdicts
        return isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.BinOp) and self._chooses(value)

    def returns_choice(self) -> bool:
        """Whether the function says of a sample whether it is this worker's."""
        return any(
            isinstance(node, ast.Return) and node.value is not None and self._is_verdict(node.value)
            for node in self._own
        )

    def _decides(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._chosen
        if isinstance(node, ast.Compare):
            left, right = node.left, node.comparators[0]
            return (self._is_turn(left) and self._tells(right)) or (
                self._is_turn(right) and self._tells(left)
            )
        if isinstance(node, ast.Call):
            return called_name(node) in self._verdicts
        divided = self._remainder_of(node)  # `(index - number) % workers`
        return divided is not None and self._tells(divided)

    def loops(self) -> Iterator[SharingLoop]:
        """Each place of the function that chooses."""
        for node in self._own:
            if isinstance(node, LOOPS):
                yield from self._in_loop(node)
            for part in header(node):
                for inner in ast.walk(part):
                    if isinstance(inner, COMPREHENSIONS):
                        yield from self._in_comprehension(node, inner)
                    elif isinstance(inner, ast.expr):
                        yield from self._stepped(node, inner)

    def _in_loop(self, loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[SharingLoop]:
        for node in _outside_loops(loop.body):
            if isinstance(node, ast.If) and self._keeps(node):  # on its line its own may be prepared
                head = loop.lineno if isinstance(loop, ast.While) else loop.iter.lineno
                last = min(node.test.end_lineno or node.lineno, node.body[0].lineno - 1)
                yield SharingLoop(head, max(last, head), node.test.lineno)
                return

    def _keeps(self, node: ast.If) -> bool:
        """Whether it chooses, and gives the sample on, or goes on to the next one."""
        gives = any(
            isinstance(inner, ast.Yield | ast.YieldFrom)
            or (isinstance(inner, ast.Call) and called_name(inner) in KEEPS)
            for each in (*node.body, *node.orelse)
            for inner in ast.walk(each)
        )
        return (gives or isinstance(node.body[0], ast.Continue)) and self._chooses(node.test)

    def _in_comprehension(self, within: ast.stmt, node: ast.expr) -> Iterator[SharingLoop]:
        for part in getattr(node, "generators", ()):
            chosen = next(filter(self._chooses, part.ifs), None)
            if chosen is None:
                continue
            last = chosen.end_lineno or chosen.lineno
            own = getattr(node, "elt", None) or node
            apart = own.lineno > last or (own.end_lineno or 0) < part.iter.lineno
            works = any(isinstance(inner, ast.Call) for inner in ast.walk(own))
            makers = self._makers(part.iter, part.iter.lineno)
            # Else the worker's own samples are prepared on its lines, too.
            if _given(within) is node and (apart or not works):
                yield SharingLoop(part.iter.lineno, last, chosen.lineno, makers)
            elif makers:
                yield SharingLoop(chosen.lineno, 0, chosen.lineno, makers)

    def _stepped(self, node: ast.stmt, part: ast.expr) -> Iterator[SharingLoop]:
        """`islice` or a slice with a step, or a `filter`: it gives on what others made."""
        source = self._stepped_source(part)
        if source is None:
            return
        makers = self._makers(source, node.lineno)
        if _given(node) is part and isinstance(part, ast.Call):  # nothing else is on its lines
            yield SharingLoop(part.lineno, part.end_lineno or part.lineno, part.lineno, makers)
        elif makers:
            yield SharingLoop(part.lineno, 0, part.lineno, makers)

    def _stepped_source(self, part: ast.expr) -> ast.expr | None:
        if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice):
            return part.value if part.slice.step is not None and self._tells(part.slice.step) else None
        if not isinstance(part, ast.Call):
            return None
        if called_name(part) == "islice" and len(part.args) > 3:
            return part.args[0] if any(map(self._tells, part.args[1:])) else None
        if called_name(part) == "filter" and len(part.args) == 2:
            test, source = part.args
            return source if self._chooses(test) or names_in(test) & self._verdicts else None
        return None

    def _makers(self, source: ast.expr, line: int) -> frozenset[str]:
        """The functions of the file that make what an expression gives, as names stand above a line."""
        names, sought = names_in(source), set[str]()
        while names - sought:
            name = (names - sought).pop()
            sought.add(name)
            for node in self._own:
                if isinstance(node, ast.Assign) and node.lineno < line and name in _names_set(node):
                    names |= names_in(node.value)
        given = {arg.arg for arg in self._function.args.args} & names
        names |= {
            inner
            for node in (ast.walk(self._listing.tree) if given and self._listing.tree else ())
            if isinstance(node, ast.Call) and called_name(node) == self._function.name
            for name, value in bound(self._function, node)
            if name in given
            for inner in names_in(value)
        }
        return frozenset(names & {scope.name for scope in self._listing.scopes})


def _outside_loops(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a loop's body, without those of loops inside it."""
    inside: set[ast.stmt] = set()
    for node in statements(list(body)):
        if node not in inside:
            yield node
        if isinstance(node, LOOPS):
            inside |= set(statements(node.body))


def _is_told(value: ast.expr) -> bool:
    """Whether a value is a worker's number or their count as it was told, or that of all ranks' workers."""
    return not any(
        (isinstance(inner, ast.BinOp) and not isinstance(inner.op, ast.Add | ast.Mult))
        or (isinstance(inner, ast.Call) and called_name(inner) not in TOLD_BY)
        for inner in ast.walk(value)
    )


def _names_set(node: ast.Assign) -> set[str]:
    return {name for target in node.targets for name in _stored(target)}


def _stored(target: ast.expr) -> Iterator[str]:
    """The names that are set: of an attribute the last one."""
    for inner in ast.walk(target):
        if isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner.id if isinstance(inner, ast.Name) else inner.attr


def _given(node: ast.stmt) -> ast.expr | None:
    """What a loop goes through, numbered or not, or what a statement gives on as a whole."""
    part = node.iter if isinstance(node, ast.For) else getattr(node, "value", None)
    if isinstance(part, ast.YieldFrom):
        part = part.value
    if isinstance(part, ast.Call) and called_name(part) in {"enumerate", "iter"} and part.args:
        part = part.args[0]
    return part
