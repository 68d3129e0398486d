"""Finds the functions marked `@fact`, puts them in order by their needs, and calls each once.

    @fact
    def padding_facts(rank: RankRecords, loader: LoaderFacts | None) -> PaddingFacts | None: ...

The return type names the group of facts that a function makes; each group has one function. It returns None
where the group does not apply to the script, and Missing where it was not measured.

The parameters' types name what it needs: records that were read, events of the rank (`list[SaveEvent]`), or
other groups. A need can be absent, as None or as Missing; a function that can do without it says so in the
type (`| None`, `| Missing`, or both). Otherwise it is not called, and its own group is absent in the same
way, for the same reason. A list of events is there, if only an empty one, wherever the rank's records are.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from perfdoctor.facts.annotations import types_of
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.missing import Missing
from perfdoctor.model.own_failure import OwnFailure
from perfdoctor.own_failures import contained
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events import Event

Maker = TypeVar("Maker", bound=Callable[..., object])
Kind = Any  # a class, or what an alias stands for: the key that groups are kept by
ABSENT = (type(None), Missing)
FAILED = Missing("perfdoctor itself failed at it")
IN_FOLDER = 2  # dots in `perfdoctor.facts.data`: the name of what lies in that folder has more
LISTS: tuple[object, ...] = (list,)
UNIONS: tuple[object, ...] = (typing.Union, types.UnionType)  # as the interpreter builds `X | None`


@dataclass(frozen=True)
class Need:
    """What one parameter takes."""

    kind: Kind
    without: tuple[type, ...]  # of ABSENT, what it takes instead

    @property
    def event(self) -> type[Event] | None:
        """The kind of event of which it takes a list, or None where it takes something else."""
        members = typing.get_args(self.kind) if typing.get_origin(self.kind) in LISTS else ()
        return next((member for member in members if issubclass(member, Event)), None)

    def value(self, known: Mapping[Kind, object]) -> object:
        """What it is given of what is known; KeyError where nothing is known of it."""
        if self.event is None:
            return known[self.kind]
        rank = known[RankRecords]
        return rank.of(self.event) if isinstance(rank, RankRecords) else rank


@dataclass(frozen=True)
class Fact:
    """A group of facts, and how it is made."""

    kind: Kind
    make: Callable[..., object]
    needs: Mapping[str, Need]

    @property
    def name(self) -> str:
        """The function that makes it, as in `perfdoctor.facts.data.padding.padding_facts`."""
        return f"{self.make.__module__}.{self.make.__name__}"

    def of(self, known: Mapping[Kind, object]) -> object:
        """The group, made from what is known."""
        arguments = {}
        for parameter, need in self.needs.items():
            try:
                value = need.value(known)
            except KeyError:
                wanted = _called(need.kind)
                raise TypeError(f"{self.name} needs {wanted}, which is no record and no fact") from None
            if isinstance(value, ABSENT) and not isinstance(value, need.without):
                return value
            arguments[parameter] = value
        return self.make(**arguments)


def fact(make: Maker) -> Maker:
    """Mark a function that makes a group of facts."""
    make.__fact__ = True  # type: ignore[attr-defined]
    return make


@cache
def facts() -> tuple[Fact, ...]:
    """Every fact in the folders of `perfdoctor/facts/`, each after those that it needs.

    What lies beside the folders makes none: views of a run, which few verbs show.
    """
    package = importlib.import_module("perfdoctor.facts")
    found = pkgutil.walk_packages(package.__path__, "perfdoctor.facts.")
    names = sorted(info.name for info in found if info.name.count(".") > IN_FOLDER)
    return in_order([made for name in names for made in _of_module(importlib.import_module(name))])


def compute(given: Mapping[Kind, object], failures: list[OwnFailure]) -> dict[Kind, object]:
    """Every group of facts: the group itself, None or Missing. `given` holds the records by their types.

    A fact that raises is a defect of ours, and is missing; the failure is added to `failures`.
    """
    known = dict(given)
    for made in facts():
        known[made.kind] = FAILED
        with contained(f"the facts {_called(made.kind)}", failures):
            known[made.kind] = made.of(known)
    return {made.kind: known[made.kind] for made in facts()}


def in_order(unordered: list[Fact]) -> tuple[Fact, ...]:
    """The facts, each after those that it needs."""
    makers: dict[Kind, Fact] = {}
    for made in unordered:
        other = makers.setdefault(made.kind, made)
        if other is not made:
            raise TypeError(f"{other.name} and {made.name} both make {_called(made.kind)}")
    needs = {
        made.kind: [need.kind for need in made.needs.values() if need.kind in makers] for made in unordered
    }
    try:
        return tuple(makers[kind] for kind in TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle = " -> ".join(makers[kind].name for kind in reversed(error.args[1]))
        raise TypeError(f"facts need each other in a circle: {circle}") from None


def _of_module(module: types.ModuleType) -> Iterator[Fact]:
    for value in vars(module).values():
        if hasattr(value, "__fact__") and value.__module__ == module.__name__:
            yield read(value)


def read(make: Callable[..., object]) -> Fact:
    """What a function's signature says."""
    hints = types_of(make)
    returned = hints.pop("return")
    needs = {}
    for parameter, hint in hints.items():
        kinds, without = _split(hint)
        if len(kinds) != 1:
            raise TypeError(f"{make.__module__}.{make.__name__}: {parameter} has to be of one type")
        needs[parameter] = Need(kinds[0], without)
    groups, _ = _split(returned)
    if len(groups) != 1:
        raise TypeError(f"{make.__module__}.{make.__name__} has to return one type")
    return Fact(groups[0], make, needs)


def _split(hint: Kind) -> tuple[list[Kind], tuple[type, ...]]:
    """The members of a union that are values, and those that stand for absence."""
    members = typing.get_args(hint) if typing.get_origin(hint) in UNIONS else (hint,)
    absent = tuple(member for member in members if member in ABSENT)
    return [member for member in members if member not in ABSENT], absent


def _called(kind: Kind) -> str:
    return str(getattr(kind, "__name__", kind))
