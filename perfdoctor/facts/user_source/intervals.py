"""Tells how often a line of the user's runs: by the loop around it, and the remainders that it is run by.

Such as `if ... % N == 0` around it, or `if ... % N: continue` before it, after which the rest of a turn runs
each N-th time.

Of the loops around a line that one counts in which an update is made, the innermost first: a loop over
parameters or images only repeats what is logged. Where a turn of that loop makes its updates in a loop of its
own, or calls a function that does, the line runs once in many updates. A function in which no loop makes
updates is followed to the one place that calls it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from perfdoctor.facts.user_source.effects import EffectsFinder
from perfdoctor.facts.user_source.later_training import CALLERS
from perfdoctor.facts.user_source.origins import FunctionNode, base_name, called_name, dotted, parameters
from perfdoctor.facts.user_source.parse import (
    LOOPS,
    SIMPLE_BODIES,
    Function,
    Listing,
    Sources,
    header,
    statements,
)
from perfdoctor.facts.user_source.turn_tests import Branch, remainders, returned, varies
from perfdoctor.facts.user_source.update_dependence import modules_of
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.interval import OF_STEPS, Interval
from perfdoctor.model.measured import Location

SEVERAL = 1.5  # steps between two runs of a line that each turn reaches: more updates than turns
COUNTING = frozenset("range trange count enumerate".split())
# What yields its first argument, item by item.
PASSES_ON = re.compile(r"^tqdm|track$|progress|bar$|^reversed$", re.IGNORECASE)
OF_MANY = re.compile(r"epoch|episode", re.IGNORECASE)  # counts turns of many updates each
# What has a `step` and is no optimizer.
OTHERS = re.compile(r"sched|(?:^|[._])lr|warmup|prof|env|simulator|game|progress|bar$", re.IGNORECASE)
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


@dataclass(frozen=True)
class _Condition:
    """What came of a test where a line runs."""

    test: ast.expr
    came: bool
    loop: ast.stmt | None  # that it is directly in
    is_around: bool = False  # else it is before the line, and what follows it is left out

    @property
    def may_be_seldom(self) -> bool:
        """Whether it may come out so in few turns: what leaves turns out most often looks for a mistake."""
        nodes = list(ast.walk(self.test))
        return self.is_around or any(
            isinstance(node, ast.Compare) and isinstance(node.ops[0], ORDERED) for node in nodes
        )


@dataclass(frozen=True)
class _By:
    """What a line runs by: a remainder or, where none is found, some other test that differs by turn."""

    branch: Branch | None = None
    is_tested: bool = False

    def or_by(self, outer: _By) -> _By:
        """These tests, with those farther from the line."""
        return _By(self.branch or outer.branch, self.is_tested or outer.is_tested)

    def put(self, interval: Interval) -> Interval:
        """An interval, with these tests."""
        if self.branch is None:
            return replace(interval, is_tested=self.is_tested)
        counted, period, rest = self.branch
        return replace(interval, counted=counted, period=period, rest=rest)


@dataclass(frozen=True)
class Remainders:
    """By which a line runs, and by which updates are made in the same function."""

    own: frozenset[Branch]  # by which no update is made: what runs once an update has no others
    of_updates: frozenset[Branch]
    shows_updates: bool  # whether the function makes any

    def turns(self, backwards: float) -> set[int]:
        """How many turns of the loop one step may take, which has so many backward passes."""
        several = max(1, round(backwards))
        if not self.of_updates:
            return {1} if self.shows_updates else {1, several}
        return {int(period) if period.isdecimal() else several for _, period, _ in self.of_updates}


class Intervals:
    """How often lines run; each file is looked through once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._finders: dict[str, EffectsFinder] = {}
        self._updates = _UpdateLevels("step"), _UpdateLevels("backward")

    def of(self, at: Location, steps_between: float = 1.0) -> Interval:
        """How often a line runs, which was seen to do so once in so many steps.

        Where the source does not show the updates, those steps and the counter's name tell of the loop.
        """
        listing = self._sources.file(at.file)
        line, by, unseen = at.line, _By(), None
        for depth in range(CALLERS + 1):
            loops = _around(listing, line)
            found = self._of_loops(at.file, loops)
            if found is not None:
                loop, of_updates = found
                by = self._by(at.file, line, loop, by)
                return by.put(Interval(_counter(loop), of_updates, is_in_caller=depth > 0))
            if loops and unseen is None:
                counter, inner = _counter(loops[0]), self._by(at.file, line, loops[0])
                around = any(one.is_around for one in _conditions(listing, line, loops[0]))
                always = inner.branch is None and not around  # but for what is seldom left out
                many = (always and steps_between > SEVERAL) or (counter and OF_MANY.search(counter))
                unseen = by.or_by(inner).put(Interval(counter, not many, is_in_caller=depth > 0))
            by = self._by(at.file, line, None, by)
            caller = self._caller(at.file, listing.scope(line))
            if caller is None:
                break
            line = caller
        return unseen or by.put(OF_STEPS)

    def makes_updates(self, file: str, node: ast.stmt) -> bool:
        """Whether the source shows that a statement makes updates, in functions that it calls, too."""
        return any(updates.levels(self._finder(file), [node]) for updates in self._updates)

    def remainders(self, file: str, line: int) -> Remainders:
        """All remainders by which a line runs in its function, in whatever loop, and the updates of that."""
        listing = self._sources.file(file)
        by, scope = frozenset(self._remainders(file, line)), listing.scope(line)
        updates = self._updates_in(file, scope.body) if by and scope is not None else []
        of_updates = frozenset(one for node in updates for one in self._remainders(file, node.lineno))
        return Remainders(by - of_updates, of_updates, bool(updates))

    def _by(self, file: str, line: int, loop: ast.stmt | None, inner: _By | None = None) -> _By:
        """What a line runs by: directly in that loop, or in no loop of its function."""
        listing = self._sources.file(file)
        scope = listing.scope(line)
        meaning, tests = partial(self._meaning, file, scope), _conditions(listing, line, loop)
        found = [next(remainders(one.test, one.came, meaning), None) for one in tests]
        branch = next((branch for branch in reversed(found) if branch is not None), None)
        others = [one for one in tests if next(remainders(one.test, not one.came, meaning), None) is None]
        changed = _changed(listing, scope, loop) if branch is None and others else set()
        given = set(parameters(scope)) if loop is None and isinstance(scope, Function) else set()
        is_tested = any(one.may_be_seldom and varies(one.test, changed, given) for one in others)
        own = _By(branch, is_tested)
        return inner.or_by(own) if inner is not None else own

    def _remainders(self, file: str, line: int) -> Iterator[Branch]:
        """All remainders by which a line runs in its function, in whatever loop."""
        scope = self._sources.file(file).scope(line)
        for one in _tested(scope.body, line) if scope is not None else ():
            yield from remainders(one.test, one.came, partial(self._meaning, file, scope))

    def _meaning(self, file: str, scope: ast.Module | Function | None, node: ast.expr) -> ast.expr | None:
        """What a name was set to in a function, or what a call of one of the user's functions returns."""
        if isinstance(node, ast.Name):
            return _value(scope, node.id)
        if isinstance(node, ast.Call):
            functions = [function for _, function in self._finder(file).called(node)]
            return returned(functions[0], node) if len(functions) == 1 else None
        return None

    def _updates_in(self, file: str, body: list[ast.stmt]) -> list[ast.stmt]:
        """The simple statements that make updates, or call a function that does."""
        simple = [node for node in statements(body) if not hasattr(node, "body")]
        found = ([node for node in simple if of.levels(self._finder(file), [node])] for of in self._updates)
        return next((updates for updates in found if updates), [])

    def _of_loops(self, file: str, loops: Sequence[ast.stmt]) -> tuple[ast.stmt, bool] | None:
        """The innermost of these loops in which updates are made, and whether each turn makes one."""
        finder = self._finder(file)
        for updates in self._updates:
            for loop in loops:
                levels = updates.levels(finder, [loop])
                if levels and not updates.is_over_optimizers(loop):
                    return loop, min(levels) <= 1
        return None

    def _finder(self, file: str) -> EffectsFinder:
        if file not in self._finders:
            self._finders[file] = EffectsFinder(self._sources.file(file), modules_of(self._sources, file))
        return self._finders[file]

    def _caller(self, file: str, scope: ast.AST | None) -> int | None:
        """The line of the only call of a function in its file."""
        if not isinstance(scope, Function):
            return None
        finder = self._finder(file)
        named = [call for call in finder.file.calls if called_name(call) == scope.name]
        sure = [call for call in named if any(one is scope for _, one in finder.called(call))]
        calls = sure or named  # `torch.save(...)` is no call of the file's own `save`
        return calls[0].lineno if len(calls) == 1 else None


def _around(listing: Listing, line: int) -> Sequence[ast.stmt]:
    """The loops around a line within its function, innermost first."""
    scope = listing.scope(line)
    nodes = statements(scope.body) if scope is not None else ()
    return [
        node for node in nodes if isinstance(node, LOOPS) and node.lineno <= line <= (node.end_lineno or 0)
    ][::-1]


def _conditions(listing: Listing, line: int, loop: ast.stmt | None) -> list[_Condition]:
    """What was tested before a line runs, in order: directly in that loop, or in no loop of its function."""
    scope = listing.scope(line)
    tests = _tested(scope.body, line) if scope is not None else ()
    return [condition for condition in tests if condition.loop is loop]


def _tested(body: Sequence[ast.stmt], line: int, loop: ast.stmt | None = None) -> Iterator[_Condition]:
    """The tests on the way to a line."""
    for node in body:
        if isinstance(node, ast.If) and (node.end_lineno or node.lineno) < line:
            yield from _passed(node, loop)
        if not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        within = node if isinstance(node, LOOPS) else loop
        for block in _blocks(node):
            if block and block[0].lineno <= line <= (block[-1].end_lineno or 0):
                test = _test_of(node, block)
                if test is not None:
                    yield _Condition(*test, loop, is_around=True)
                yield from _tested(block, line, within)


def _test_of(node: ast.stmt, block: list[ast.stmt]) -> tuple[ast.expr, bool] | None:
    """The test that a block of a statement is chosen by, and what came of it."""
    if isinstance(node, ast.If):
        return node.test, block is node.body
    for case in node.cases if isinstance(node, ast.Match) else ():
        if case.body is block and isinstance(case.pattern, ast.MatchValue) and isinstance(node, ast.Match):
            return ast.Compare(node.subject, [ast.Eq()], [case.pattern.value]), True
    return None


def _passed(node: ast.If, loop: ast.stmt | None) -> Iterator[_Condition]:
    """What came of the tests of an `if` that goes on to the next turn or, in no loop, leaves the function."""
    leaves = ast.Return if loop is None else ast.Continue
    if isinstance(node.body[-1], leaves):
        yield _Condition(node.test, False, loop)
        for inner in node.orelse[-1:]:
            yield from _passed(inner, loop) if isinstance(inner, ast.If) else ()
    elif node.orelse and isinstance(node.orelse[-1], leaves):
        yield _Condition(node.test, True, loop)


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement."""
    for name in SIMPLE_BODIES:
        parts = getattr(node, name, [])
        yield from ([part.body for part in parts] if name in {"handlers", "cases"} else [parts])


def _changed(listing: Listing, scope: ast.Module | Function | None, loop: ast.stmt | None) -> set[str]:
    """What is set in each turn, or in each call: names, and attributes that not only constructors set."""
    within = [loop] if loop is not None else scope.body if scope is not None else []
    later = [one for one in listing.scopes if one.name != "__init__"]
    names = [inner for node in within for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    attributes = [inner for node in later for inner in ast.walk(node) if isinstance(inner, ast.Attribute)]
    return {dotted(node) for node in names if isinstance(node.ctx, ast.Store)} | {
        dotted(node) for node in attributes if isinstance(node.ctx, ast.Store)
    }


def _value(scope: ast.Module | Function | None, name: str) -> ast.expr | None:
    """What a name stands for, where one assignment of the function gives it its value."""
    values = [
        node.value
        for node in (statements(scope.body) if scope is not None else ())
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    return values[0] if len(values) == 1 else None


def _counter(loop: ast.stmt) -> str | None:
    """What counts the turns of a loop: its target over a range, or a name that grows by one in its body."""
    if isinstance(loop, ast.For | ast.AsyncFor):
        made = _iterated(loop.iter)
        target: ast.expr | None = loop.target
        if made == "enumerate":
            target = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
        if made in COUNTING and isinstance(target, ast.Name) and target.id != "_":
            return target.id
    apart = [node for node in statements([loop]) if isinstance(node, (*LOOPS, ast.If)) and node is not loop]
    for node in statements([loop]):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _is_one(node.value):
            always = not any(one.lineno <= node.lineno <= (one.end_lineno or 0) for one in apart)
            if always and isinstance(node.target, ast.Name | ast.Attribute):
                return ast.unparse(node.target)
    return None


def _iterated(node: ast.expr) -> str | None:
    """The function whose result a loop goes through, below the progress bar around it."""
    while isinstance(node, ast.Call) and node.args and PASSES_ON.search(called_name(node)):
        node = node.args[0]
    return called_name(node) if isinstance(node, ast.Call) else None


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


class _UpdateLevels:
    """In how many loops of some statements the updates lie that they make, in functions that they call too.

    An update is a call of `called`: `step` of an optimizer or, where no such call is seen, `backward`.
    """

    def __init__(self, called: str) -> None:
        self._called = called
        self._known: dict[FunctionNode, set[int]] = {}

    def levels(self, finder: EffectsFinder, body: Iterable[ast.AST]) -> set[int]:
        """Of each update, how many loops are around it; no more than two are counted."""
        found: set[int] = set()
        for node in body:
            if isinstance(node, (*Function.__args__, ast.ClassDef)):
                continue
            loops = 1 if isinstance(node, LOOPS) and not self.is_over_optimizers(node) else 0
            for name in SIMPLE_BODIES:
                inner = self.levels(finder, getattr(node, name, ()))
                found |= {min(2, level + loops) for level in inner}
            for part in header(node) if isinstance(node, ast.stmt) else ():
                for call in ast.walk(part):
                    found |= self._of_call(finder, call) if isinstance(call, ast.Call) else set()
        return found

    def _of_call(self, finder: EffectsFinder, call: ast.Call) -> set[int]:
        functions = list(finder.called(call))
        if not functions and called_name(call) == self._called and isinstance(call.func, ast.Attribute):
            return set() if OTHERS.search(dotted(call.func.value)) else {0}
        return {level for other, function in functions for level in self._of_function(other, function)}

    def _of_function(self, finder: EffectsFinder, function: FunctionNode) -> set[int]:
        if function not in self._known:
            self._known[function] = set()  # while it is looked at: of one that calls itself
            self._known[function] = self.levels(finder, function.body)
        return self._known[function]

    def is_over_optimizers(self, loop: ast.stmt) -> bool:
        """`for optimizer in optimizers: optimizer.step()`: all of them make one update."""
        if not isinstance(loop, ast.For | ast.AsyncFor):
            return False
        names = {inner.id for inner in ast.walk(loop.target) if isinstance(inner, ast.Name)}
        calls = (one for one in ast.walk(loop) if isinstance(one, ast.Call))
        return any(base_name(one.func) in names for one in calls if called_name(one) == self._called)
