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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from perfdoctor.facts.user_source.effects import EffectsFinder
from perfdoctor.facts.user_source.later_training import CALLERS
from perfdoctor.facts.user_source.origins import FunctionNode, base_name, called_name, dotted
from perfdoctor.facts.user_source.parse import (
    LOOPS,
    SIMPLE_BODIES,
    Function,
    Listing,
    Sources,
    header,
    statements,
)
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
# Comparisons of a remainder that say that nothing is left, and those that say that something is.
NOTHING_LEFT, SOMETHING_LEFT = {(ast.LtE, 0), (ast.Lt, 1)}, {(ast.Gt, 0), (ast.GtE, 1)}
Branch = tuple[str, str, str]  # what is taken modulo, modulo what, the remainder


@dataclass(frozen=True)
class _Condition:
    """What came of a test where a line runs."""

    test: ast.expr
    came: bool
    loop: ast.stmt | None  # that it is directly in
    is_around: bool = False  # else it is before the line, and what follows it is left out


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
        line, branch, unseen = at.line, None, None
        for depth in range(CALLERS + 1):
            loops = _around(listing, line)
            found = self._of_loops(at.file, loops)
            if found is not None:
                loop, of_updates = found
                return _under(
                    Interval(_counter(loop), of_updates, is_in_caller=depth > 0),
                    branch or _branch(listing, line, loop),
                )
            if loops and unseen is None:
                counter, inner = _counter(loops[0]), _branch(listing, line, loops[0])
                around = any(one.is_around for one in _conditions(listing, line, loops[0]))
                always = inner is None and not around  # but for what is seldom left out
                many = (always and steps_between > SEVERAL) or (counter and OF_MANY.search(counter))
                unseen = _under(Interval(counter, not many, is_in_caller=depth > 0), branch or inner)
            branch = branch or _branch(listing, line, None)
            caller = self._caller(at.file, listing.scope(line))
            if caller is None:
                break
            line = caller
        return unseen or _under(OF_STEPS, branch)

    def makes_updates(self, file: str, node: ast.stmt) -> bool:
        """Whether the source shows that a statement makes updates, in functions that it calls, too."""
        return any(updates.levels(self._finder(file), [node]) for updates in self._updates)

    def remainders(self, file: str, line: int) -> Remainders:
        """All remainders by which a line runs in its function, in whatever loop, and the updates of that."""
        listing = self._sources.file(file)
        by, scope = frozenset(_remainders(listing, line)), listing.scope(line)
        updates = self._updates_in(file, scope.body) if by and scope is not None else []
        of_updates = frozenset(one for node in updates for one in _remainders(listing, node.lineno))
        return Remainders(by - of_updates, of_updates, bool(updates))

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


def _under(interval: Interval, branch: Branch | None) -> Interval:
    if branch is None:
        return interval
    counted, period, rest = branch
    return replace(interval, counted=counted, period=period, rest=rest)


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
                if isinstance(node, ast.If):
                    yield _Condition(node.test, block is node.body, loop, is_around=True)
                yield from _tested(block, line, within)


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


def _branch(listing: Listing, line: int, loop: ast.stmt | None) -> Branch | None:
    """The innermost remainder of those by which a line runs."""
    given = partial(_value, listing.scope(line))
    tests = _conditions(listing, line, loop)
    found = [next(_periods(one.test, one.came, given), None) for one in tests]
    return next((branch for branch in reversed(found) if branch is not None), None)


def _remainders(listing: Listing, line: int) -> Iterator[Branch]:
    """All remainders by which a line runs in its function, in whatever loop."""
    scope = listing.scope(line)
    for one in _tested(scope.body, line) if scope is not None else ():
        yield from _periods(one.test, one.came, partial(_value, scope))


def _value(scope: ast.Module | Function | None, name: str) -> ast.expr | None:
    """What a name stands for, where one assignment of the function gives it its value."""
    values = [
        node.value
        for node in (statements(scope.body) if scope is not None else ())
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    return values[0] if len(values) == 1 else None


def _periods(test: ast.expr, came: bool, given: Callable[[str], ast.expr | None]) -> Iterator[Branch]:
    """The remainders that must be, or may be, what they are compared with for a test to come out so."""
    if isinstance(test, ast.NamedExpr):
        yield from _periods(test.value, came, given)
    elif isinstance(test, ast.Name):
        value = given(test.id)
        yield from _periods(value, came, _unknown) if value is not None else ()
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _periods(test.operand, not came, given)
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _periods(part, came, given)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        yield from _compared(test, came)
    elif isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod) and not came:
        yield _operand(test.left), _operand(test.right), "0"


def _compared(test: ast.Compare, came: bool) -> Iterator[Branch]:
    operator, right = test.ops[0], test.comparators[0]
    rest = ast.unparse(right)
    number = right.value if isinstance(right, ast.Constant) else None
    if isinstance(test.left, ast.BinOp) and isinstance(test.left.op, ast.Mod):
        if (type(operator), number) in (NOTHING_LEFT if came else SOMETHING_LEFT):
            rest = "0"
        elif not isinstance(operator, ast.Eq if came else ast.NotEq):
            return
        yield _operand(test.left.left), _operand(test.left.right), rest


def _unknown(name: str) -> None:
    """Names that stand for others are not followed any further."""


def _operand(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, ast.BinOp | ast.UnaryOp | ast.IfExp) else text


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
