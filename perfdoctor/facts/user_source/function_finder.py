"""Finds the functions of the user's that a call means, over files and through what classes inherit."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from perfdoctor.facts.user_source import known_calls as known
from perfdoctor.facts.user_source.origins import (
    SELVES,
    FunctionNode,
    SourceFile,
    base_name,
    called_name,
    dotted,
    methods,
)
from perfdoctor.facts.user_source.parse import Function, Listing

if TYPE_CHECKING:
    from typing_extensions import Self

DEEPEST = 6  # calls within calls, and modules within modules, that are followed; beyond it nothing is known
Imported = Callable[[str], "tuple[Listing, Imported] | None"]


class FunctionFinder:
    """What the names of one file mean, each with the finder of the file that defines it.

    `imported` gives the listing of a module that the file imports, or an empty one.
    """

    def __init__(self, listing: Listing, imported: Imported | None = None, depth: int = 0) -> None:
        self.file = listing.once(SourceFile)
        self._imported, self._depth = imported, depth
        self._others: dict[str, Self | None] = {}
        # Functions of the file that call methods of their object which classes of other files replace.
        self.templates: set[FunctionNode] = set()

    def called(self, call: ast.Call) -> Iterator[tuple[Self, FunctionNode]]:
        """The functions of the user's that a call may mean, each with the finder of its file."""
        name, func = called_name(call), call.func
        if isinstance(func, ast.Name):
            yield from self._run_by(name)
        elif isinstance(func, ast.Attribute):
            receiver = base_name(func.value)
            if isinstance(func.value, ast.Name) and receiver in SELVES:
                own = [(self, function) for function in self.file.functions.get(name, [])]
                yield from own or self._inherited(call)
            elif is_super(func.value):
                yield from self._inherited(call)
            elif dotted(func).partition(".")[0] in self.file.imports:
                yield from self._run_by(dotted(func))
            for value in (*self.file.origins.get(receiver or "", ()), func.value):
                for finder, owner in self._built(value):
                    yield from finder.method(owner, name)

    def _run_by(self, name: str) -> Iterator[tuple[Self, FunctionNode]]:
        """The functions that calling a dotted name runs: of a class, what builds its objects."""
        for finder, found in self._definitions(name):
            if isinstance(found, ast.ClassDef):
                yield from finder.method(found, "__init__")
            else:
                yield finder, found

    def _definitions(self, name: str) -> Iterator[tuple[Self, FunctionNode | ast.ClassDef]]:
        """What defines a dotted name of this file, here or in a module, with the finder of its file."""
        own = self.file.classes.get(name)
        here = [own] if own is not None else self.file.functions.get(name, [])
        yield from ((self, found) for found in here)
        for module, original in self.file.imported_from(name) if not here else ():
            other = self._other(module) if module else None
            yield from other._definitions(original) if other is not None else ()

    def class_of(self, name: str) -> tuple[Self, ast.ClassDef] | None:
        """A class by its dotted name in this file, with the finder of the file that defines it."""
        defined = self._definitions(name)
        return next(((finder, found) for finder, found in defined if isinstance(found, ast.ClassDef)), None)

    def family(self, owner: ast.ClassDef) -> list[tuple[Self, ast.ClassDef]]:
        """A class and all that the source shows it to inherit from, the nearest first."""
        found = [(self, owner)]
        for theirs, kind in found:  # which grows meanwhile
            bases = filter(None, (theirs.class_of(dotted(base)) for base in kind.bases))
            found += [one for one in bases if all(one[1] is not known_one for _, known_one in found)]
        return found

    def method(self, owner: ast.ClassDef, name: str, above: bool = False) -> list[tuple[Self, FunctionNode]]:
        """What an object of a class runs by that name, its own or inherited; `above`: only the latter."""
        family = self.family(owner)
        for index, (theirs, kind) in enumerate(family):
            found = methods(kind, name) if index >= above else []
            if found:
                below = (one for other, kind in family[:index] if other is not theirs for one in kind.body)
                replaced = {one.name for one in below if isinstance(one, Function)}
                theirs.templates.update(one for one in found if _asked_of_self(one) & replaced)
                return [(theirs, one) for one in found]
        return []

    def _inherited(self, call: ast.Call) -> Iterator[tuple[Self, FunctionNode]]:
        """The method that the class around a call on its own object inherits by that name.

        One that does nothing is there for other classes to put something in its place.
        """
        classes = self.file.classes.values()
        around = [one for one in classes if one.lineno <= call.lineno <= (one.end_lineno or 0)]
        if around:
            owner = max(around, key=lambda one: one.lineno)
            found = self.method(owner, called_name(call), above=True)
            yield from (one for one in found if not all(map(_is_idle, one[1].body)))

    def _built(self, value: ast.expr) -> Iterator[tuple[Self, ast.ClassDef]]:
        """The classes of the user's of which a call makes an object, be it in a function that returns it."""
        for finder, found in self._definitions(dotted(value.func)) if isinstance(value, ast.Call) else ():
            if isinstance(found, ast.ClassDef):
                yield finder, found
                continue
            returned = (node.value for node in ast.walk(found) if isinstance(node, ast.Return))
            made = (finder.class_of(dotted(one.func)) for one in returned if isinstance(one, ast.Call))
            yield from filter(None, made)

    def _other(self, module: str) -> Self | None:
        """What does the same for a module of the user's that this file imports."""
        root = module.split(".")[0]
        if self._imported is None or self._depth >= DEEPEST or root in known.PURE_MODULES:
            return None
        if module not in self._others:
            listed = self._imported(module)
            self._others[module] = type(self)(*listed, self._depth + 1) if listed is not None else None
        return self._others[module]


def is_super(node: ast.expr) -> bool:
    """Whether an expression is `super()`."""
    return isinstance(node, ast.Call) and called_name(node) == "super"


def _asked_of_self(function: FunctionNode) -> set[str]:
    """The names of methods and attributes that a function uses of its own object."""
    nodes = (node for node in ast.walk(function) if isinstance(node, ast.Attribute))
    return {node.attr for node in nodes if dotted(node.value) in SELVES}


def _is_idle(node: ast.stmt) -> bool:
    """Whether a statement does nothing: `pass`, a docstring, dots."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
