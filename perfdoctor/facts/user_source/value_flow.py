"""Tells whether backward passes compute with what comes of a statement: where its values flow, name by name.

`update_dependence` asks whether training could notice anything, such as a schedule that reads a score. Here
only values count that reach what a backward pass starts from: actions by way of an environment and a replay
buffer, or labels that the model has made. Statements are followed in order, loops twice: what sets a name
anew ends what it held before. The body of a loop is taken to run, and either branch of an `if`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from perfdoctor.facts.user_source import known_calls as known
from perfdoctor.facts.user_source.effects import EffectsFinder, reports
from perfdoctor.facts.user_source.function_finder import DEEPEST
from perfdoctor.facts.user_source.origins import SELVES, FunctionNode, base_name, bound, called_name
from perfdoctor.facts.user_source.parse import LOOPS, Function, Sources, header, statements
from perfdoctor.facts.user_source.update_dependence import modules_of
from perfdoctor.model.dataclass import dataclass

# What only modules and optimizers have: their weights reach every loss, and carry no values of a pass.
OF_MODULES = frozenset({"parameters", "named_parameters", "state_dict", "load_state_dict", "zero_grad"})
TURNS = 2  # of a loop: a value that one turn leaves behind reaches the next one

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass(frozen=True)
class _Uses:
    """What a statement, or the header of a compound one, does to names; `object.name` is an attribute's."""

    needs: Names
    sets: Names  # anew
    changes: Names


class ValueFlow:
    """Follows values through the user's files; each is looked through once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._finders: dict[str, EffectsFinder] = {}
        self._modules: dict[EffectsFinder, Names] = {}
        self._uses: dict[ast.stmt, _Uses] = {}
        self._backwards: dict[FunctionNode, bool] = {}
        self._inside: dict[tuple[FunctionNode, Names], bool] = {}
        self._running: list[FunctionNode] = []
        self._summing: list[FunctionNode] = []

    def feeds_backward(self, file: str, line: int) -> bool | None:
        """Whether a backward pass computes with what the statement at a line gives.

        None where nothing else in the function around the line makes backward passes: its caller may tell.
        """
        finder = self._finder(file)
        scope, source = finder.file.listing.scope(line), finder.file.listing.statement(line)
        if scope is None or source is None:
            return None
        others = (node for node in statements(scope.body) if node is not source)
        if not any(self._leads_to_backward(finder, node) for node in others):
            return None
        return _ValueWalk(self, finder, source).reaches(scope.body, NONE)

    def trains(self, file: str, line: int) -> bool:
        """Whether the statement at a line makes a backward pass, or calls a function that does."""
        node = self._sources.file(file).statement(line)
        return node is not None and self._leads_to_backward(self._finder(file), node)

    def _finder(self, file: str) -> EffectsFinder:
        if file not in self._finders:
            self._finders[file] = EffectsFinder(self._sources.file(file), modules_of(self._sources, file))
        return self._finders[file]

    def modules(self, finder: EffectsFinder) -> Names:
        """The names of modules, optimizers and what makes backward passes for others in a file."""
        if finder not in self._modules:
            marks = OF_MODULES | known.MODE_CALLS
            nodes = finder.file.nodes
            marked = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in marks]
            marked += [of for node in nodes for of in _backward_for(node)]
            self._modules[finder] = frozenset(name for node in marked if (name := base_name(node.value)))
        return self._modules[finder]

    def _leads_to_backward(self, finder: EffectsFinder, node: ast.stmt) -> bool:
        return any(
            _is_backward(finder, call) or any(self.makes_backward(*one) for one in finder.called(call))
            for call in _calls(node)
        )

    def makes_backward(self, finder: EffectsFinder, function: FunctionNode) -> bool:
        """Whether a function of the user's, or one that it calls, makes a backward pass."""
        if function not in self._backwards:
            self._backwards[function] = False  # while it is looked at: of one that calls itself
            nodes = statements(function.body)
            self._backwards[function] = any(self._leads_to_backward(finder, node) for node in nodes)
        return self._backwards[function]

    def reaches_inside(self, finder: EffectsFinder, function: FunctionNode, held: Names) -> bool:
        """Whether a function's backward passes compute with what these of its names hold as it begins."""
        key = function, held
        if key not in self._inside:
            if function in self._running or len(self._running) >= DEEPEST:
                return False
            self._running.append(function)
            self._inside[key] = bool(held) and _ValueWalk(self, finder, None).reaches(function.body, held)
            self._running.pop()
        return self._inside[key]

    def uses(self, finder: EffectsFinder, node: ast.stmt) -> _Uses:
        """What a statement does to names; modules are none of these."""
        if node not in self._uses:
            self._uses[node] = self._found(finder, node)
        return self._uses[node]

    def _found(self, finder: EffectsFinder, node: ast.stmt) -> _Uses:
        effects = finder.of_statement(node)
        needs, changes = set(effects.needs), set(effects.changes)
        for call in _calls(node):
            receiver, functions = _receiver(call), list(finder.called(call))
            if functions and receiver is not None:  # what of it is changed is told by its attributes
                needs.discard(receiver)
                changes.discard(receiver)
            for other, function in functions:
                inner = self._of_object(other, function)
                needs |= _renamed("self", receiver or "self", inner.needs)
                changes |= _renamed("self", receiver or "self", inner.changes)
            if functions:
                continue
            if isinstance(call.func, ast.Attribute) and _may_keep(finder, call):
                changes |= {name for name in [base_name(call.func.value)] if name and name not in SELVES}
        modules = self.modules(finder)
        return _Uses(
            frozenset(needs - modules), frozenset(effects.binds - modules), frozenset(changes - modules)
        )

    def _of_object(self, finder: EffectsFinder, function: FunctionNode) -> _Uses:
        """What a method does to the attributes of its own object."""
        if function in self._summing:
            return _Uses(NONE, NONE, NONE)
        self._summing.append(function)
        uses = [self.uses(finder, node) for node in statements(function.body)]
        self._summing.pop()
        changes = NONE.union(*(one.sets | one.changes for one in uses))
        return _Uses(NONE.union(*(one.needs for one in uses)), NONE, changes)


class _ValueWalk:
    """One way through a function; `source` is the statement that gives the values."""

    def __init__(self, flow: ValueFlow, finder: EffectsFinder, source: ast.stmt | None) -> None:
        self._flow, self._finder, self._source = flow, finder, source
        self._reached = False

    def reaches(self, body: Sequence[ast.stmt], held: Names) -> bool:
        """Whether a backward pass in these statements computes with the values, which `held` names hold."""
        self._through(body, held)
        return self._reached

    def _through(self, body: Iterable[ast.stmt], held: Names) -> Names:
        for node in body:
            if isinstance(node, (*Function.__args__, ast.ClassDef)):
                continue
            held = self._past(node, held)
            if isinstance(node, LOOPS):
                for _ in range(TURNS):
                    held = self._past(node, self._through(node.body, held))
                held = self._through(node.orelse, held)
            elif isinstance(node, ast.If):
                held = self._through(node.body, held) | self._through(node.orelse, held)
            elif isinstance(node, ast.Match):
                held = reduce(frozenset.union, (self._through(case.body, held) for case in node.cases), held)
            elif isinstance(node, ast.Try):
                held = self._through((*node.body, *node.orelse), held)
                caught = (self._through(handler.body, held) for handler in node.handlers)
                held = self._through(node.finalbody, reduce(frozenset.union, caught, held))
            elif isinstance(node, ast.With | ast.AsyncWith):
                held = self._through(node.body, held)
        return held

    def _past(self, node: ast.stmt, held: Names) -> Names:
        """The names that hold the values after a statement, or the header of a compound one."""
        if held and not self._reached:
            self._reached = any(self._computes(call, held) for call in _calls(node))
        uses = self._flow.uses(self._finder, node)
        if node is self._source or _holds(uses.needs, held):
            return held | uses.sets | uses.changes
        return held - uses.sets

    def _computes(self, call: ast.Call, held: Names) -> bool:
        """Whether a call makes a backward pass that computes with the values."""
        if _is_backward(self._finder, call):
            return _holds(frozenset(_names(call)) - self._flow.modules(self._finder), held)
        return any(
            self._flow.makes_backward(finder, function)
            and self._flow.reaches_inside(finder, function, self._given(finder, function, call, held))
            for finder, function in self._finder.called(call)
        )

    def _given(self, finder: EffectsFinder, function: FunctionNode, call: ast.Call, held: Names) -> Names:
        """The names that hold the values as a called function begins."""
        given = {name for name, value in bound(function, call) if _holds(frozenset(_names(value)), held)}
        for name, value in bound(function, call):
            if isinstance(value, ast.Name):
                given -= {name} if value.id not in held else NONE  # of an object, some attributes
                given |= _renamed(value.id, name, held)
        receiver = _receiver(call)
        given |= _renamed(receiver or "self", "self", held)
        if finder is self._finder:
            given |= {name for name in held & finder.of_function(function).needs if "." not in name}
        return frozenset(given)


def _calls(node: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a statement, or of the header of a compound one."""
    if isinstance(node, (*Function.__args__, ast.ClassDef)):
        return
    for part in header(node):
        yield from (inner for inner in ast.walk(part) if isinstance(inner, ast.Call))


def _is_backward(finder: EffectsFinder, call: ast.Call) -> bool:
    return called_name(call) in known.BACKWARDS and not any(finder.called(call))


def _backward_for(call: ast.AST) -> Iterator[ast.Attribute]:
    """`accelerator.backward` of `accelerator.backward(loss)`: an object that keeps no values of others.

    Not of `loss.backward(gradient=...)`, which is a tensor's.
    """
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
        yield from [call.func] if call.func.attr in known.BACKWARDS else []


def _receiver(call: ast.Call) -> str | None:
    """`agent` of `agent.act(state)`; None of a plain function's, and of the object itself."""
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return None
    return call.func.value.id if call.func.value.id not in SELVES else None


def _renamed(before: str, after: str, held: Names) -> set[str]:
    """The attributes of one object among these names, as those of another name for it."""
    return {f"{after}{name[len(before) :]}" for name in held if name.startswith(f"{before}.")}


def _may_keep(finder: EffectsFinder, call: ast.Call) -> bool:
    """Whether a method whose source is not there may keep what it is given, as a replay buffer does."""
    pure = called_name(call) in known.PURE_METHODS | known.MODE_CALLS | OF_MODULES | known.BACKWARDS
    return not (
        pure or reports(call, finder.file.listing.writers) or finder.file.module(call.func) is not None
    )


def _names(node: ast.AST) -> Iterator[str]:
    """The names in an expression, and the attributes of the object itself."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id not in SELVES:
            yield inner.id
        elif (
            isinstance(inner, ast.Attribute)
            and isinstance(inner.value, ast.Name)
            and inner.value.id in SELVES
        ):
            yield f"self.{inner.attr}"


def _holds(names: Names, held: Names) -> bool:
    """Whether any of these names, or an attribute of what it stands for, holds a value."""
    return bool(names & held) or any(one.rpartition(".")[0] in names for one in held)
