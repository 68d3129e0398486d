"""Tells statements that compute, keep and report, and change nothing that others may hold.

Other than `effects`, which follows names and takes what it does not know for the file's own, this allows only
what it knows: methods and functions by their names, objects by what they are made as.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from perfdoctor.facts.user_source import known_calls as known
from perfdoctor.facts.user_source.effects import EffectsFinder
from perfdoctor.facts.user_source.origins import (
    SELVES,
    FunctionNode,
    base_name,
    called_name,
    dotted,
    parameters,
)
from perfdoctor.facts.user_source.parse import ALWAYS_LOGS, LOGGERS, Function, header

# Methods of tensors, arrays, texts and dictionaries that return something else and leave those as they are.
READS = frozenset(
    "item tolist numpy cpu cuda to detach clone float double half long int bool type argmax argmin max "
    "min amax amin mean sum std var norm abs sqrt exp log log2 log10 pow square round floor ceil "
    "sigmoid tanh softmax log_softmax relu clamp clip eq ne gt lt ge le any all nonzero topk argsort "
    "unique bincount histc quantile median view reshape flatten squeeze unsqueeze permute transpose t "
    "expand repeat size dim numel isnan isinf isfinite cumsum cumprod prod dot matmul mm bmm gather "
    "index_select masked_select where chunk split unbind contiguous astype copy nanmean count_nonzero "
    "logsumexp parameters named_parameters buffers named_buffers values items keys join format strip "
    "split upper lower replace startswith endswith ljust rjust".split()
)
CONVERTS = frozenset("to cpu cuda float double half long int bool type".split())  # a module itself, too
OF_MODULES = re.compile(
    r"model|net|module|encoder|decoder|critic|actor|policy|student|teacher|backbone|learner", re.IGNORECASE
)
GATHERS = frozenset("append appendleft extend add insert update setdefault".split())
FRESH = frozenset("zeros ones full empty zeros_like ones_like full_like empty_like".split())
NUMBERS = frozenset("float int len item".split())
WRITES = known.WRITING_FUNCTIONS | frozenset(
    "seed manual_seed set_state set_rng_state save savez savez_compressed dump".split()
)
OF_DATA = re.compile(r"data(set|loader)?$|loader$|sampler$", re.IGNORECASE)  # whose items may be drawn
TAKES = frozenset("next iter islice".split())
HIDES = frozenset("getattr setattr delattr vars locals globals exec eval compile open input super".split())
CHANGING = frozenset(("out", "inplace"))
SUSPENDS = (ast.Await, ast.Yield, ast.YieldFrom)
BRANCHES = (ast.Match, ast.Try, *(getattr(ast, name) for name in ("TryStar",) if hasattr(ast, name)))
ODD = (ast.NamedExpr, ast.Lambda, *SUSPENDS, *BRANCHES)


class PlainStatements:
    """The statements of one function of the user's."""

    def __init__(self, finder: EffectsFinder, function: FunctionNode) -> None:
        self._finder = finder
        self._given = set(parameters(function))

    def holds(self, node: ast.stmt) -> bool:
        """Whether a statement, or the header of a compound one, is plain."""
        if isinstance(node, (*Function.__args__, ast.ClassDef, *ODD)):
            return False
        parts = [part for each in header(node) for part in ast.walk(each)]
        if any(isinstance(part, ODD) for part in parts):
            return False
        if any(isinstance(part, ast.Subscript) and OF_DATA.search(dotted(part.value)) for part in parts):
            return False
        if any(isinstance(part, ast.Attribute) and part.attr == "__dict__" for part in parts):
            return False
        called = {id(part.func) for part in parts if isinstance(part, ast.Call)}
        own = (part for part in parts if isinstance(part, ast.Attribute) and dotted(part.value) in SELVES)
        if any(part.attr in self._finder.file.functions and id(part) not in called for part in own):
            return False  # a property, or a function that is handed on
        if isinstance(node, ast.AugAssign) and not self._is_own(base_name(node.target), numbers=True):
            return False  # what is a tensor is changed in place
        calls = (part for part in parts if isinstance(part, ast.Call))
        return all(map(self._keeps, _targets(node))) and all(map(self._call, calls))

    def _keeps(self, target: ast.expr) -> bool:
        """Whether what a statement sets is a name, an attribute of its own, or a part of what it has made."""
        if isinstance(target, ast.Tuple | ast.List):
            return all(map(self._keeps, target.elts))
        if isinstance(target, ast.Name):
            return True
        if isinstance(target, ast.Attribute) and dotted(target.value) in SELVES:
            return True
        return isinstance(target, ast.Subscript) and self._is_own(base_name(target))

    def _is_own(self, name: str | None, numbers: bool = False) -> bool:
        """Whether all that a name, or an attribute, is set to are new containers, or else numbers."""
        values = self._finder.file.origins.get(name or "", ())
        if not values or name in self._given:
            return False
        return all(_is_number(value) if numbers else _is_new(value) for value in values)

    def _call(self, call: ast.Call) -> bool:
        name, func = called_name(call), call.func
        if any(word.arg in CHANGING for word in call.keywords):
            return False
        own = list(self._finder.called(call))
        if own:
            return all(_is_plain_function(finder, function, set()) for finder, function in own)
        known_name = name not in WRITES | TAKES | HIDES and not known.DRAWS.search(name)
        if isinstance(func, ast.Name):
            pure = name in known.PURE_BUILTINS | known.CONTAINERS and name not in self._finder.file.origins
            return known_name and (pure or name in ALWAYS_LOGS or self._finder.file.is_pure_function(call))
        if not isinstance(func, ast.Attribute):
            return False
        if self._finder.file.module(func) is not None:
            writes = bool(self._finder.file.written(call))
            return known_name and not writes and self._finder.file.is_pure_function(call)
        return _is_plain_method(call, func, self._is_own(base_name(func.value)))


def _targets(node: ast.stmt) -> Iterable[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AnnAssign | ast.For):
        return [node.target]
    if isinstance(node, ast.With):
        return [item.optional_vars for item in node.items if item.optional_vars is not None]
    return []


def _is_plain_method(call: ast.Call, func: ast.Attribute, is_own: bool) -> bool:
    """Whether a method of something changes nothing but a container of the function's own."""
    name, of = func.attr, dotted(func.value).rpartition(".")[2]
    if name in CONVERTS and OF_MODULES.search(of):
        return False
    if name == "log" and (call.args or call.keywords):
        return of.lower().strip("_") in LOGGERS - {"log"}
    if name in READS or (name in GATHERS and is_own):
        return True
    if name == "get":
        return bool(call.args) and isinstance(call.args[0], ast.Constant)
    logs = name in ALWAYS_LOGS or name.startswith(("add_", "log", "info", "debug", "warning", "write"))
    return logs and of.lower().strip("_") in LOGGERS


def _is_new(value: ast.expr) -> bool:
    literals = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    return isinstance(value, literals) or (
        isinstance(value, ast.Call) and called_name(value) in FRESH | known.CONTAINERS
    )


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Call):
        return called_name(value) in NUMBERS
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def _is_plain_function(finder: EffectsFinder, function: FunctionNode, seen: set[int]) -> bool:
    """Whether a function of the user's changes nothing in ways that effects do not follow."""
    if id(function) in seen:
        return True
    seen.add(id(function))
    given = set(parameters(function))
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal, *SUSPENDS)):
            return False
        if isinstance(node, ast.AugAssign) and base_name(node.target) in given:
            return False
        if isinstance(node, ast.Call) and not _is_plain_inside(finder, node, seen):
            return False
    return True


def _is_plain_inside(finder: EffectsFinder, call: ast.Call, seen: set[int]) -> bool:
    name = called_name(call)
    own = list(finder.called(call))
    if own:
        return all(_is_plain_function(theirs, function, seen) for theirs, function in own)
    changes = name.endswith("_") and not name.endswith("__")
    words = {word.arg for word in call.keywords}
    if changes or words & CHANGING or name in WRITES | TAKES | HIDES or known.DRAWS.search(name):
        return False
    if name == "sort" and "key" in words:
        return False
    of = base_name(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return of is None or not of.startswith("self.") or name in READS | GATHERS
