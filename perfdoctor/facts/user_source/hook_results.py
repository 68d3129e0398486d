"""Tells what becomes of the results of a line in a function that the training loop calls by no name.

A trainer calls its hooks and callbacks one after the other: its source does not show which, nor whether the
update depends on them. Such a function can be read by itself. What a line of it computes is only reported
where it reaches nothing but prints and logs: it is not returned, changes no argument, and if it is kept in an
attribute, then all who read that do no more with it either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from perfdoctor.facts.user_source.effects import Effects, EffectsFinder
from perfdoctor.facts.user_source.origins import (
    SELVES,
    FunctionNode,
    SourceFile,
    base_name,
    dotted,
    parameters,
)
from perfdoctor.facts.user_source.parse import Function, Sources, covers, header, statements
from perfdoctor.facts.user_source.plain_statements import BRANCHES, PlainStatements
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.facts.user_source.scoped_names import original, scoped
from perfdoctor.facts.user_source.update_dependence import modules_of
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location

LEAVES = (ast.Return, ast.Raise, ast.Assert, ast.Break, ast.Continue)
PLAIN_BASES = frozenset(("object", "ABC", "Protocol"))
# Classes of libraries that read no attribute which a class below them has made up.
HOOKS = frozenset(("Callback", "TrainerCallback", "Hook", "HookBase"))
DECORATORS = frozenset(
    ("torch.no_grad", "torch.inference_mode", "rank_zero_only", "override", "staticmethod")
)
WHOLE = frozenset(("vars", "locals", "__dict__", "asdict"))  # what hands on all attributes, or all names


@dataclass(frozen=True)
class HookResult:
    """What a line of a hook computes is only reported."""

    test: str | None = None  # of the `if`, every so many steps, below which alone it is read


def hook_result(sources: Sources, at: Location, files: Iterable[str]) -> HookResult | None:
    """What becomes of the results of a line; None where the source does not show that it is only reports.

    `files`: of the user's, from which all that may read an attribute are found by their imports.
    """
    listing = sources.file(at.file).once(scoped)
    function = listing.scope(at.line)
    if not isinstance(function, Function):
        return None
    finder = EffectsFinder(listing, modules_of(sources, at.file))
    plain = PlainStatements(finder, function)
    nodes = list(statements(function.body))
    line = [node for node in nodes if covers(node, at.line)]
    effects = {node: finder.of_statement(node) for node in nodes}
    names, readers = _reached(line, nodes, effects)
    if not line or any(hasattr(node, "body") for node in line) or _names_in_all(function) & WHOLE:
        return None
    if any(dotted(each) not in DECORATORS for each in function.decorator_list):
        return None
    if any(_acts(node, effects[node]) or not plain.holds(node) for node in (*line, *readers)):
        return None
    if any(isinstance(node, (ast.Global, ast.Nonlocal, *BRANCHES)) for node in nodes):
        return None
    local = {name for each in effects.values() for name in each.binds if "." not in name}
    attributes = {name.partition(".")[2] for name in names if name.startswith("self.")}
    others = {name for name in names if not name.startswith("self.")}
    if others - local or names & set(parameters(function)) or _kept_by_functions(function, names):
        return None
    kept = _KeptAttributes(finder, function, attributes) if attributes else None
    if kept is not None and kept.is_read(sources, [*files, at.file]):
        return None
    own = any(effects[node].needs & names for node in line) or (kept is not None and kept.read_in_family)
    return HookResult(None if own else _every_so_often(line, readers, nodes, effects))


def _names_in_all(function: FunctionNode) -> set[str]:
    """All names, attributes as well, in a function and those inside."""
    return {str(getattr(node, "id", getattr(node, "attr", ""))) for node in ast.walk(function)}


def _kept_by_functions(function: FunctionNode, names: set[str]) -> bool:
    """Whether a function inside reads one of these names, whenever it is called."""
    inside = (node for node in ast.walk(function) if isinstance(node, (*Function.__args__, ast.Lambda)))
    parts = (part for each in inside if each is not function for part in ast.walk(each))
    return not names.isdisjoint(_names(parts))


def _names(parts: Iterable[ast.AST]) -> set[str]:
    """The names, and attributes of the object, among these."""
    found = (base_name(part) for part in parts if isinstance(part, ast.Name | ast.Attribute))
    return {name for name in found if name is not None}


def _acts(node: ast.stmt, effects: Effects) -> bool:
    """Whether a statement does more than compute and report."""
    unseen = effects.trains or effects.unknown or effects.forwards or bool(effects.modes)
    return unseen or isinstance(node, LEAVES)


def _reached(
    line: Iterable[ast.stmt], nodes: list[ast.stmt], effects: dict[ast.stmt, Effects]
) -> tuple[set[str], list[ast.stmt]]:
    """The names that hold something of a line's results, and the other statements that read or hang on it."""
    reached = list(line)
    names = {name for node in reached for name in effects[node].binds | effects[node].changes}
    before = -1
    while before != len(reached):
        before = len(reached)
        for node in nodes:
            if node not in reached and _loads(node) & names:
                reached += [one for one in statements([node]) if one in effects and one not in reached]
        names |= {name for node in reached for name in effects[node].binds | effects[node].changes}
    return names, [node for node in reached if node not in line]


def _loads(node: ast.stmt) -> set[str]:
    """The names that a statement, or the header of a compound one, holds."""
    return _names(part for each in header(node) for part in ast.walk(each))


def _every_so_often(
    line: list[ast.stmt],
    readers: list[ast.stmt],
    nodes: list[ast.stmt],
    effects: dict[ast.stmt, Effects],
) -> str | None:
    """The test of an `if` behind the line, the same as at the line, below which all readers lie."""
    for node in nodes:
        if not isinstance(node, ast.If) or node.orelse or node in readers or node.lineno <= line[-1].lineno:
            continue
        below = list(statements(node.body))
        needed = effects[node].needs
        changed = {
            name for each in nodes if each is not node for name in effects[each].binds | effects[each].changes
        }
        if not _counts(node.test) or needed & changed or not readers:
            continue
        if all(reader in below for reader in readers):
            return original(ast.unparse(node.test))
    return None


def _counts(test: ast.expr) -> bool:
    """Whether a test is true every so many steps: `step % 40 == 0`, or that among others."""
    if isinstance(test, ast.BoolOp):
        return any(map(_counts, test.values))
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not) and _is_remainder(test.operand)
    compares = isinstance(test, ast.Compare) and [type(op) for op in test.ops] == [ast.Eq]
    return compares and _is_remainder(test.left)  # type: ignore[attr-defined]


def _is_remainder(node: ast.expr) -> bool:
    texts = (ast.Constant, ast.JoinedStr)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not isinstance(node.left, texts)


# ---------------------------------------------------------------- attributes


class _KeptAttributes:
    """Attributes of the object in which a method of its keeps results."""

    def __init__(self, finder: EffectsFinder, function: FunctionNode, attributes: set[str]) -> None:
        self._function = function
        self._attributes = attributes
        self._owner = next((one for one in finder.file.classes.values() if function in one.body), None)
        self._family = _family(finder, self._owner) if self._owner is not None else None

    @property
    def _methods(self) -> list[tuple[EffectsFinder, FunctionNode]]:
        """Those of the object but for the one that keeps."""
        return [
            (finder, each)
            for finder, kind in self._family or ()
            for each in kind.body
            if isinstance(each, Function) and each is not self._function
        ]

    @property
    def read_in_family(self) -> bool:
        """Whether another method reads them, be it to report them."""
        return any(self._loads(method) for _, method in self._methods)

    def _loads(self, node: ast.AST) -> bool:
        loaded = (each for each in ast.walk(node) if isinstance(each, ast.Attribute))
        return any(each.attr in self._attributes and isinstance(each.ctx, ast.Load) for each in loaded)

    def is_read(self, sources: Sources, files: Iterable[str]) -> bool:
        """Whether others may read them, other than to report them."""
        if self._owner is None or self._family is None:
            return True
        for _, kind in self._family:
            named = {getattr(each, "name", None) for each in kind.body}
            set_there = (each for each in kind.body if not isinstance(each, Function))
            if named & self._attributes or any(map(self._loads, set_there)):
                return True  # a property, or what a class makes of them
        if any(self._does_more(finder, method) for finder, method in self._methods):
            return True
        project = (sources.file(path).once(SourceFile) for path in project_files(files, sources))
        return any(self._is_read_in(file) for file in project)

    def _does_more(self, finder: EffectsFinder, method: FunctionNode) -> bool:
        """Whether a method does more with them than to report them."""
        if _names_in_all(method) & WHOLE:
            return True
        own = {f"self.{name}" for name in self._attributes}
        if _kept_by_functions(method, own):
            return True
        for node in statements(method.body):
            effects = finder.of_statement(node)
            decides = isinstance(node, (ast.Return, ast.If, ast.While, *BRANCHES))
            if effects.needs & own and (effects.binds or effects.changes or _acts(node, effects) or decides):
                return True
        return False

    def _is_read_in(self, file: SourceFile) -> bool:
        """Whether a file reads attributes of these names of any object, or has a class that inherits them."""
        assert self._owner is not None
        bases = {dotted(base).rpartition(".")[2] for kind in file.classes.values() for base in kind.bases}
        inherited = {file.imports.get(name, name).rpartition(".")[2] for name in bases}
        if self._owner.name in inherited:
            return True
        texts = (node.value for node in file.nodes if isinstance(node, ast.Constant))
        if any(isinstance(text, str) and text in self._attributes for text in texts):
            return True  # as `getattr` and its like are given it
        of_classes = {
            id(node)
            for kind in file.classes.values()
            if any(self._sets(node) for node in ast.walk(kind))
            for node in ast.walk(kind)
            if isinstance(node, ast.Attribute) and dotted(node.value) in SELVES
        }
        loaded = (
            node for node in file.nodes if isinstance(node, ast.Attribute) and node.attr in self._attributes
        )
        return any(isinstance(node.ctx, ast.Load) and id(node) not in of_classes for node in loaded)

    def _sets(self, node: ast.AST) -> bool:
        """Whether a node sets an attribute of such a name: then it is another object's own."""
        sets = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        return sets and node.attr in self._attributes  # type: ignore[attr-defined]


def _family(finder: EffectsFinder, owner: ast.ClassDef) -> list[tuple[EffectsFinder, ast.ClassDef]] | None:
    """A class with all that it inherits from; None where nothing is known of a base."""
    family = finder.family(owner)
    bases = [(theirs, dotted(base)) for theirs, kind in family for base in kind.bases]
    unseen = {name.rpartition(".")[2] for theirs, name in bases if theirs.class_of(name) is None}
    return family if unseen <= PLAIN_BASES | HOOKS else None
