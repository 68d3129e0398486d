"""Tells what a statement of the user's can change: by its names, its calls, and the functions behind them."""

from __future__ import annotations

import ast
from collections.abc import Set
from dataclasses import field

from perfdoctor.facts.user_source import known_calls as known
from perfdoctor.facts.user_source.function_finder import DEEPEST, FunctionFinder, Imported, is_super
from perfdoctor.facts.user_source.origins import (
    SELVES,
    FunctionNode,
    base_name,
    bound,
    called_name,
    dotted,
    parameters,
)
from perfdoctor.facts.user_source.parse import (
    ALWAYS_LOGS,
    LOGS_ON_WRITERS,
    SAVERS,
    SAVING_CALLS,
    Listing,
    header,
    is_log,
    statements,
)
from perfdoctor.model.dataclass import dataclass

_WEIGHTS = frozenset({"grad", "data", "requires_grad", "param_groups"})


@dataclass
class Effects:
    """What running some statements can do."""

    binds: set[str] = field(default_factory=set)  # names set anew
    changes: set[str] = field(default_factory=set)  # objects changed in place
    needs: set[str] = field(default_factory=set)
    trains: bool = False  # changes parameters, gradients, an optimizer or what is built on them
    unknown: bool = False  # calls what this file does not show
    forwards: bool = False  # calls the model, which in training mode can change its running statistics
    modes: set[str] = field(default_factory=set)  # of `train` and `eval`, what is called on a model

    def add(self, other: Effects) -> None:
        """Take in the effects of another statement."""
        self.binds |= other.binds
        self.changes |= other.changes
        self.needs |= other.needs
        self.modes |= other.modes
        self.trains |= other.trains
        self.unknown |= other.unknown
        self.forwards |= other.forwards


class EffectsFinder(FunctionFinder):
    """What the statements and functions of one file do."""

    def __init__(self, listing: Listing, imported: Imported | None = None, depth: int = 0) -> None:
        super().__init__(listing, imported, depth)
        self._running: list[FunctionNode] = []

    def of_statement(self, node: ast.stmt) -> Effects:
        """What a statement does, or the header of a compound one."""
        effects = Effects()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            effects.binds.add(node.name)
            effects.needs |= _read_inside(node)
            return effects
        for part in header(node):
            for inner in ast.walk(part):
                self._node(inner, effects)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            moved = called_name(node.value) in known.MOVES and isinstance(node.value.func, ast.Attribute)
            effects.trains |= moved and base_name(node.value.func) in self.file.training
        if isinstance(node, ast.AugAssign):
            self._stored(node.target, effects)
            effects.needs |= {name for name in [base_name(node.target)] if name}
            effects.trains |= base_name(node.target) in self.file.training
        local = {
            name.id
            for part in header(node)
            for inner in ast.walk(part)
            if isinstance(inner, ast.comprehension)
            for name in ast.walk(inner.target)
            if isinstance(name, ast.Name)
        }
        effects.binds -= local
        effects.needs -= local
        if isinstance(node, (ast.Raise, ast.Assert, ast.Delete, ast.Global, ast.Nonlocal)):
            effects.unknown = True
        return effects

    def of_function(self, function: FunctionNode) -> Effects:
        """What a call of one of the file's functions does, in the names of its own parameters."""
        total = Effects(unknown=function in self.templates)
        if function in self._running or len(self._running) > DEEPEST:
            total.unknown = function not in self._running
            return total
        self._running.append(function)
        for node in statements(function.body):
            total.add(self.of_statement(node))
        self._running.pop()
        if total.forwards and "eval" in total.modes:
            total.forwards = False
        if total.modes == {"train", "eval"}:
            total.modes.clear()
        outer = {
            name for node in statements(function.body) if isinstance(node, ast.Global) for name in node.names
        }
        own = {name for name in total.binds if "." not in name} - outer
        for name in own & total.changes:  # a name of its own may stand for what it was given
            total.changes |= self.file.aliases(name)
        given = set(parameters(function))
        total.needs -= own | given
        total.binds = {name for name in total.binds if name not in own}
        total.changes -= own - given
        return total

    def trains_inside(self, call: ast.Call) -> bool:
        """Whether a function of the user's that a call may mean trains."""
        return any(finder.of_function(function).trains for finder, function in self.called(call))

    def _node(self, node: ast.AST, effects: Effects) -> None:
        if isinstance(node, ast.Call):
            self._call(node, effects)
        elif isinstance(node, ast.Name) and node.id not in SELVES:
            (effects.needs if isinstance(node.ctx, ast.Load) else effects.binds).add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in SELVES:
            (effects.needs if isinstance(node.ctx, ast.Load) else effects.binds).add(f"self.{node.attr}")
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            self._stored(node, effects)
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
            effects.unknown = True

    def _stored(self, target: ast.expr, effects: Effects) -> None:
        if isinstance(target, ast.Name):
            return
        name = base_name(target)
        if name is None or any(isinstance(x, ast.Attribute) and _is_of_weights(x) for x in ast.walk(target)):
            effects.trains = True
            return
        if isinstance(target, ast.Attribute) and dotted(target.value) in SELVES:  # what it was stays as it is
            effects.changes.add(name)
            effects.trains |= name in self.file.training
            return
        inner = target.value if isinstance(target, (ast.Attribute, ast.Subscript)) else target
        self._changed(name, effects, items=_subscripted(inner))

    def _changed(self, name: str, effects: Effects, items: bool = False) -> None:
        names = self.file.aliases(name, items)
        effects.changes |= names
        effects.trains |= not names.isdisjoint(self.file.training)

    def _call(self, call: ast.Call, effects: Effects) -> None:
        name = called_name(call)
        own = list(self.called(call))
        handed = [value.id for value in call.args if isinstance(value, ast.Name)]
        effects.unknown |= any(one in self.file.functions for one in handed)  # who knows when it is called
        if name in known.TRAINING_CALLS and not own:
            effects.trains = True
        elif own:
            for finder, function in own:
                self._own_call(call, finder, function, effects)
        elif (
            isinstance(call.func, ast.Attribute)
            and dotted(call.func.value) in SELVES
            and not self._reports(call)
        ):
            self._bare(call, f"self.{name}", effects)
        elif isinstance(call.func, ast.Attribute) and self.file.module(call.func) is None:
            self._method(call, call.func, effects)
        elif self.file.is_pure_function(call) or self._reports(call):
            for value in self.file.written(call):
                for other in self.file.refers(value):
                    self._changed(other, effects)
        elif isinstance(call.func, ast.Name):
            self._bare(call, call.func.id, effects)
        else:
            effects.unknown = True

    def _reports(self, call: ast.Call) -> bool:
        return reports(call, self.file.listing.writers)

    def _own_call(
        self, call: ast.Call, finder: EffectsFinder, function: FunctionNode, effects: Effects
    ) -> None:
        inner = finder.of_function(function)
        given = dict(bound(function, call))
        changed = inner.changes & set(parameters(function))
        receiver = base_name(call.func.value) if isinstance(call.func, ast.Attribute) else None
        is_own = receiver in SELVES or (isinstance(call.func, ast.Attribute) and is_super(call.func.value))
        built = function.name == "__init__" != called_name(call)
        for name in changed:
            for other in self.file.refers(given[name]) if name in given else ():
                self._changed(other, effects)
        outside = (inner.changes | inner.binds) - set(parameters(function))
        of_object = {name for name in outside if name.startswith("self.")}
        if of_object and receiver is not None and not (built or is_own):
            effects.changes |= self.file.aliases(receiver)
        if built or not is_own:
            outside -= of_object
        needs = inner.needs
        if finder is not self:  # names of another file mean nothing here, but for the object's attributes
            effects.unknown |= not outside <= of_object
            outside &= of_object
            needs = {name for name in needs if is_own and name.startswith("self.")}
        effects.changes |= outside
        effects.needs |= needs
        effects.trains |= not outside.isdisjoint(self.file.training)
        effects.trains |= inner.trains or bool(inner.modes)
        effects.unknown |= inner.unknown
        effects.forwards |= inner.forwards

    def _method(self, call: ast.Call, func: ast.Attribute, effects: Effects) -> None:
        name, receiver = func.attr, base_name(func.value)
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        if name in known.MODE_CALLS and receiver in self.file.training:
            effects.modes.add(name)
        elif name.endswith("_") and not name.endswith("__"):
            if receiver is None:
                effects.unknown = True
            else:
                self._changed(receiver, effects, items=_subscripted(func.value))
        elif self._reports(call):
            logs = ALWAYS_LOGS | LOGS_ON_WRITERS | {"log"}
            effects.unknown |= receiver in self.file.training and name not in logs
        elif name in known.PURE_METHODS or isinstance(func.value, ast.Constant):
            pass
        elif receiver is None or receiver in SELVES:
            effects.unknown = True
        elif receiver in self.file.training:
            effects.trains |= self._trains(receiver) and name not in SAVING_CALLS
            effects.unknown = True
        elif not self.file.is_plain(receiver):
            effects.unknown = True
        else:
            self._changed(receiver, effects)
            handed = set().union(*(self.file.refers(value) for value in values))
            if not self.file.is_container(receiver):
                bare = any(isinstance(value, (ast.Name, ast.Attribute)) for value in values)
                effects.unknown |= bool(handed & self.file.training)
                effects.unknown |= bare and name not in known.RECORDING_METHODS

    def _trains(self, name: str) -> bool:
        return any(self.file.makes_module(value) for value in self.file.origins.get(name, ()))

    def _bare(self, call: ast.Call, name: str, effects: Effects) -> None:
        """A call of a plain name that is no function of the file's."""
        if name in known.PURE_BUILTINS and name not in self.file.origins:
            return
        if name in self.file.training:
            effects.forwards = True
        elif name.endswith("_"):
            for value in call.args:
                for other in self.file.refers(value):
                    self._changed(other, effects)
            effects.unknown = True
        elif self.file.is_plain(name) and not any(
            isinstance(one, ast.Lambda) for one in self.file.origins[name]
        ):
            self._changed(name, effects)  # a metric called as a function keeps count
        elif name not in known.CONTAINERS:
            effects.unknown = True


def reports(call: ast.Call, writers: Set[str] = frozenset()) -> bool:
    """Whether a call prints, logs or saves by its name and that of what it is called on.

    `writers`: as a listing knows them. A buffer of samples has methods `write` and `save`, too.
    """
    name = called_name(call)
    if not isinstance(call.func, ast.Attribute):
        return is_log(None, name)
    owner = dotted(call.func.value).rpartition(".")[2]
    if is_log(owner, name, writers):
        return True
    if name in SAVING_CALLS and owner in SAVERS:
        return True
    return name == "log" and owner in SELVES


def _is_of_weights(node: ast.Attribute) -> bool:
    """Whether an attribute is one that weights have; `self.data` is what the user's object calls so."""
    return node.attr in _WEIGHTS and not (node.attr == "data" and dotted(node.value) in SELVES)


def _subscripted(node: ast.expr) -> bool:
    """Whether an expression takes an item out of something."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Subscript)


def _read_inside(node: ast.AST) -> set[str]:
    """The names that a function or class reads and does not set itself."""
    names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    own = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    own |= {name.id for name in names if not isinstance(name.ctx, ast.Load)}
    return {name.id for name in names} - own
