"""Tells how often a line of the user's runs: by the loop around it, and the `if ... % N == 0` around it.

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
from perfdoctor.model.interval import OF_STEPS, Interval
from perfdoctor.model.measured import Location

SEVERAL = 1.5  # steps between two runs of a line that each turn reaches: more updates than turns
COUNTING = frozenset("range trange count enumerate".split())
# What yields its first argument, item by item.
PASSES_ON = re.compile(r"^tqdm|track$|progress|bar$|^reversed$", re.IGNORECASE)
OF_MANY = re.compile(r"epoch|episode", re.IGNORECASE)  # counts turns of many updates each
# What has a `step` and is no optimizer.
OTHERS = re.compile(r"sched|(?:^|[._])lr|warmup|prof|env|simulator|game|progress|bar$", re.IGNORECASE)
Branch = tuple[str, str, str]  # what is taken modulo, modulo what, the remainder


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
                counter = _counter(loops[0])
                always = not _conditions(listing, line, loops[0])
                many = (always and steps_between > SEVERAL) or (counter and OF_MANY.search(counter))
                unseen = _under(
                    Interval(counter, not many, is_in_caller=depth > 0),
                    branch or _branch(listing, line, loops[0]),
                )
            branch = branch or _branch(listing, line, None)
            caller = self._caller(at.file, listing.scope(line))
            if caller is None:
                break
            line = caller
        return unseen or _under(OF_STEPS, branch)

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


def _conditions(listing: Listing, line: int, loop: ast.stmt | None) -> list[ast.If]:
    """The `if`s under which a line runs that are directly in that loop, or in no loop of its function."""
    scope = listing.scope(line)
    around = _around(listing, line)
    return [
        node
        for node in (statements(scope.body) if scope is not None else ())
        if isinstance(node, ast.If)
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
        and next((one for one in around if one.lineno < node.lineno), None) is loop
    ]


def _branch(listing: Listing, line: int, loop: ast.stmt | None) -> Branch | None:
    """The innermost `if ... % N == 0` of those."""
    found = [next(_periods(node.test), None) for node in _conditions(listing, line, loop)]
    return next((branch for branch in reversed(found) if branch is not None), None)


def _periods(test: ast.expr) -> Iterator[Branch]:
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            modulo, rest = node.left, ast.unparse(node.comparators[0])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            modulo, rest = node.operand, "0"
        else:
            continue
        if isinstance(modulo, ast.BinOp) and isinstance(modulo.op, ast.Mod):
            yield _operand(modulo.left), _operand(modulo.right), rest


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
