"""Tells whether the update depends on what a line of the training loop does, or its result is only reported.

A line may be run less often only if nothing that trains can tell the difference. So a line is `reported` only
where this file shows that what it sets and changes never reaches a backward pass, an optimizer, parameters,
gradients, the batch, or the course of the loop. What follows the loop does not count where nothing trains any
more: weights that are restored there feed no update. Whatever the file does not show is `unknown`, and has to
be treated like a line that the update depends on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from enum import Enum

from perfdoctor.facts.user_source import known_calls as known
from perfdoctor.facts.user_source.effects import Effects, EffectsFinder
from perfdoctor.facts.user_source.function_finder import Imported
from perfdoctor.facts.user_source.later_training import CALLERS, trains_after
from perfdoctor.facts.user_source.origins import SELVES, FunctionNode, bound, called_name, parameters
from perfdoctor.facts.user_source.parse import (
    LOGGERS,
    LOOPS,
    Function,
    Listing,
    Sources,
    covers,
    statements,
)
from perfdoctor.model.measured import Location


class Dependence(str, Enum):
    """What the training update has to do with a line of its loop."""

    UPDATE = "update"  # it changes what trains, or the course of the loop
    REPORTED = "reported"  # its results are printed, logged, saved or gathered, and nothing else
    UNKNOWN = "unknown"  # the source does not show it


def dependence(
    listing: Listing,
    line: int,
    anchors: Iterable[int] = (),
    imported: Imported | None = None,
    only: ast.stmt | None = None,
) -> Dependence:
    """What the update has to do with a line; of a compound statement's first line, with all of its block.

    `anchors` are lines that are known to train, where the source alone does not show it; `imported` gives
    the listing of a module of the user's, with the function that does the same for that one. `only`: of the
    statements that share the line this one, which is known not to be what makes the line an anchor.
    """
    scope = listing.scope(line)
    nodes = [node for node in statements(scope.body) if covers(node, line)] if scope is not None else []
    if not nodes or scope is None:
        return Dependence.UNKNOWN
    finder, loop = EffectsFinder(listing, imported), listing.outermost_loop(line)
    around = _Scope(finder, scope, frozenset(anchors), loop, idle=only)
    return _worst(around.of(node) for node in (nodes if only is None else [only]))


def only_reported(sources: Sources, at: Location | None, anchors: Iterable[int] = ()) -> bool:
    """Whether the source shows that the update does not depend on what a line does."""
    return at is not None and of_line(sources, at, anchors) is Dependence.REPORTED


def of_line(
    sources: Sources, at: Location, anchors: Iterable[int] = (), only: ast.stmt | None = None
) -> Dependence:
    """What the update has to do with a line of the user's, with what the modules do that its file imports.

    `only`: as in `dependence`.
    """
    return dependence(sources.file(at.file), at.line, anchors, modules_of(sources, at.file), only)


def may_train(sources: Sources, file: str, node: ast.stmt) -> bool:
    """Whether a statement changes what trains, runs a model, or calls what the source does not show."""
    effects = EffectsFinder(sources.file(file), modules_of(sources, file)).of_statement(node)
    return effects.trains or effects.forwards or effects.unknown


def only_gives(sources: Sources, file: str, function: FunctionNode) -> bool:
    """Whether a function of a file changes nothing that others see, and draws no numbers."""
    finder = EffectsFinder(sources.file(file), modules_of(sources, file))
    return _only_reads(finder.of_function(function), function)


def only_reads(sources: Sources, file: str, node: ast.stmt) -> bool:
    """Whether a statement changes nothing that others see, and draws no numbers: but for what it reports."""
    finder = EffectsFinder(sources.file(file), modules_of(sources, file))
    return _only_reads(finder.of_statement(node), node)


def _only_reads(effects: Effects, node: ast.AST) -> bool:
    called = {called_name(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
    does = effects.changes or effects.binds or effects.trains or effects.unknown or effects.forwards
    return not (does or effects.modes) and not any(map(known.DRAWS.search, called))


def modules_of(sources: Sources, file: str) -> Imported:
    """What finds the modules that a file imports."""

    def imported(module: str) -> tuple[Listing, Imported] | None:
        path = sources.imported(file, module)
        return (sources.file(path), modules_of(sources, path)) if path is not None else None

    return imported


class _Scope:
    """The statements of the function around a line, or of the module, with what each does."""

    def __init__(
        self,
        finder: EffectsFinder,
        scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef,
        anchors: frozenset[int],
        loop: ast.stmt | None,
        depth: int = 0,
        call: ast.Call | None = None,
        idle: ast.stmt | None = None,
    ) -> None:
        """`loop`: the outermost around the line, or around the `call` of the function with the line.

        `idle`: a statement that only shares its line with one that trains.
        """
        self.finder, self.file = finder, finder.file
        self.scope, self.loop, self.depth = scope, loop, depth
        run = loop or call
        last = run.end_lineno if run is not None else None
        if last is not None and trains_after(finder, scope, last, anchors, depth):
            last = None
        self.nodes = [node for node in statements(scope.body) if last is None or node.lineno <= last]
        self.effects = {node: finder.of_statement(node) for node in self.nodes}
        for node in self.nodes:
            if node is not idle and any(covers(node, line) for line in anchors):
                self.effects[node].trains = True

    def of(self, node: ast.stmt) -> Dependence:
        """What the update has to do with a statement and all that is inside it."""
        inside = list(statements([node]))
        total = Effects()
        for one in inside:
            total.add(self.effects[one])
        if total.trains or total.modes or any(self._leaves(one, inside) for one in inside):
            return Dependence.UPDATE
        looped = [one for one in self.nodes if self.loop is None or _within(one, self.loop)]
        training = [one for one in looped if self.effects[one].trains]
        outside = self.loop is None and any(self._around(one) for one in training)
        if not training or outside:
            return Dependence.UNKNOWN
        if total.unknown or total.forwards:
            feeds = self._feeds(total.binds | total.changes, inside)
            return Dependence.UPDATE if feeds else Dependence.UNKNOWN
        return self.use(total.binds | total.changes, inside)

    def _feeds(self, names: set[str], inside: list[ast.stmt]) -> bool:
        """Whether what trains, or ends, skips or fails a step needs these names; not what is inside."""
        others = [node for node in self.nodes if node not in inside]
        return bool(names & self._needed(others, [node for node in others if self._is_sink(node)], inside))

    def use(self, names: set[str], inside: Iterable[ast.stmt] = ()) -> Dependence:
        """What becomes of these names, apart from the statements inside."""
        inside = list(inside)
        others = [node for node in self.nodes if node not in inside]
        if self._feeds(names, inside):
            return Dependence.UPDATE
        doubtful = [node for node in others if self.effects[node].unknown or self.effects[node].forwards]
        if names & self._needed(others, doubtful, inside) or self._shares(names):
            return Dependence.UNKNOWN
        returned = [node for node in others if isinstance(node, ast.Return) and node.value is not None]
        given = names & set(parameters(self.scope)) if isinstance(self.scope, Function) else set()
        if given or names & self._needed(others, returned, inside):
            return self._given_back(given)
        return Dependence.REPORTED

    def _is_sink(self, node: ast.stmt) -> bool:
        effects = self.effects[node]
        return effects.trains or bool(effects.modes) or self._leaves(node, [])

    def _leaves(self, node: ast.stmt, inside: list[ast.stmt]) -> bool:
        """Whether a statement decides which steps are made: it ends, skips or fails one."""
        if isinstance(node, (ast.Break, ast.Continue)):
            nearest = max(self._around(node), key=lambda one: one.lineno, default=None)
            return nearest is None or (
                nearest not in inside
                and any(self.effects[one].trains for one in self.nodes if _within(one, nearest))
            )
        if isinstance(node, ast.Return):
            return bool(inside) or (self.loop is not None and _within(node, self.loop))
        return isinstance(node, (ast.Raise, ast.Assert))

    def _around(self, node: ast.stmt) -> list[ast.stmt]:
        return [one for one in self.nodes if isinstance(one, LOOPS) and _within(node, one)]

    def _needed(self, others: list[ast.stmt], sinks: Sequence[ast.stmt], inside: list[ast.stmt]) -> set[str]:
        """The names that these statements need, and those that these come from: a backward slice."""
        wanted = {id(node) for node in sinks}
        needed: set[str] = set()
        before = (-1, -1)
        while before != (len(wanted), len(needed)):
            before = len(wanted), len(needed)
            for node in others:
                effects = self.effects[node]
                reached = bool((effects.binds | effects.changes) & needed)
                if reached or id(node) in wanted or any(id(one) in wanted for one in _below(node)):
                    wanted.add(id(node))
                    needed |= effects.needs - self._bound_around(node, inside)
        return needed

    def _bound_around(self, node: ast.stmt, inside: list[ast.stmt]) -> set[str]:
        """The names that loops around a statement set, which no other statement can have given it."""
        around = [
            one
            for one in self.nodes
            if isinstance(one, (ast.For, ast.AsyncFor)) and one is not node and _within(node, one)
        ]
        apart = [one for one in around if not any(_within(part, one) for part in inside)]
        return {name.id for one in apart for name in ast.walk(one.target) if isinstance(name, ast.Name)}

    def _shares(self, names: set[str]) -> bool:
        """Whether code outside this function may read these names, other than to report them."""
        if names & self.file.imports.keys() - LOGGERS:
            return True  # of a module, such as `os.environ`
        return self._shares_outer({name for name in names if "." not in name}) or self._shares_attributes(
            {name for name in names if "." in name}
        )

    def _shares_outer(self, names: set[str]) -> bool:
        """Whether names of the module, or of an enclosing function, are read outside this one."""
        if not isinstance(self.scope, Function):
            return False
        declared = {
            name for node in self.nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
        }
        own = {name for effects in self.effects.values() for name in effects.binds} - declared
        named = {name for effects in self.effects.values() for name in effects.needs | effects.binds}
        outer = names & named - own - set(parameters(self.scope))
        first, last = self.scope.lineno, self.scope.end_lineno or 0
        return any(
            isinstance(node, ast.Name)
            and node.id in outer
            and isinstance(node.ctx, ast.Load)
            and not first <= node.lineno <= last
            for node in self.file.nodes
        )

    def _shares_attributes(self, names: set[str]) -> bool:
        """Whether attributes of the object are read elsewhere."""
        if not names:
            return False
        owner = next((one for one in self.file.classes.values() if self.scope in one.body), None)
        if owner is None or any(
            not (isinstance(base, ast.Name) and base.id == "object") for base in owner.bases
        ):
            return True
        for functions in self.file.functions.values():
            for function in functions:
                if function is self.scope:
                    continue
                for node in statements(function.body):
                    effects = self.finder.of_statement(node)
                    read = effects.needs & names
                    used = effects.binds or effects.changes or effects.trains or effects.unknown
                    if read and (used or isinstance(node, (ast.Return, ast.If, ast.While))):
                        return True
        attributes = {name.partition(".")[2] for name in names}
        return any(
            isinstance(node, ast.Attribute)
            and node.attr in attributes
            and not (isinstance(node.value, ast.Name) and node.value.id in SELVES)
            for node in self.file.nodes
        )

    def _given_back(self, given: set[str]) -> Dependence:
        """What the callers, if all are in this file, make of the result and of arguments that changed."""
        if not isinstance(self.scope, Function) or self.depth >= CALLERS:
            return Dependence.UNKNOWN
        name = self.scope.name
        calls = [call for call in self.file.calls if called_name(call) == name]
        named = [node for node in self.file.nodes if _names(node, name)]
        if not calls or len(named) > len(calls):
            return Dependence.UNKNOWN  # somebody else may call it
        uses = [self._at_call(call, given) for call in calls]
        return _worst(uses)

    def _at_call(self, call: ast.Call, given: set[str]) -> Dependence:
        listing = self.file.listing
        scope, node = listing.scope(call.lineno), listing.statement(call.lineno)
        if scope is None or node is None or not isinstance(self.scope, Function):
            return Dependence.UNKNOWN
        loop = listing.outermost_loop(call.lineno)
        outer = _Scope(self.finder, scope, frozenset(), loop, self.depth + 1, call)
        handed = [self.file.refers(value) for name, value in bound(self.scope, call) if name in given]
        names = set().union(*handed)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node in outer.effects:
            names |= outer.effects[node].binds | outer.effects[node].changes  # `results[i] = f()` too
        elif not (isinstance(node, ast.Expr) and node.value is call):
            return Dependence.UNKNOWN
        return outer.use(names, [node])


def _worst(found: Iterable[Dependence]) -> Dependence:
    """Of several statements or uses, what the update has to do with any of them."""
    seen = set(found)
    return next((one for one in (Dependence.UPDATE, Dependence.UNKNOWN) if one in seen), Dependence.REPORTED)


def _names(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Attribute) and node.attr == name
    )


def _below(node: ast.stmt) -> list[ast.stmt]:
    return [] if isinstance(node, (*Function.__args__, ast.ClassDef)) else list(statements([node]))[1:]


def _within(node: ast.stmt, outer: ast.stmt) -> bool:
    return outer.lineno <= node.lineno and (node.end_lineno or 0) <= (outer.end_lineno or 0)
