"""What was read of a file, in parts: which of them damage changed, and into what kinds of values."""

from __future__ import annotations

import marshal
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

Part = tuple[str, bytes]  # where it stands in what was read, and itself: 1, 1.0 and True are three
Known = Mapping[tuple[int, str], Sequence[Part]]  # the parts of an object, by its identity and place
KeptParts = dict[tuple[int, str], Sequence[Part]]
Kind = tuple[str, str]  # where something stands, and what kind of value it is

ARRAY = b"array"  # the first of three that stand for a column; nothing that is read of JSON is bytes
SIZES = (1e-300, 1.0, 1e6, 2.0**53)  # between two, numbers are of one kind
LONG = 100  # characters: a text above it is of another kind
GONE, LACKING = "gone", "lacking"


class Undamaged:
    """What was read of an undamaged file, to compare with."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self._of: KeptParts = {}  # by objects of `content`, which live as long as it does
        self._parts = parts(content, keep=self._of)
        self._known = set(self._parts)
        self._kinds = set(_kinds(self._parts))
        self._places = {""}
        self._names: dict[str, set[str]] = defaultdict(set)  # of what stands inside, by place
        for place, _ in self._kinds:
            while place not in self._places:
                self._places.add(place)
                place, _, name = place.rpartition(".")
                self._names[place].add(name)
        self._kinds |= set(self._lacks(self._parts))

    def difference(self, content: Any) -> frozenset[Kind] | None:
        """How what was read of a damaged file differs, in kinds of values; None where it does not.

        The kinds that no undamaged part has where it stands, and the places at which parts are gone. It is
        empty where parts stand in another order or several times.
        """
        found = parts(content, self._of)
        if found == self._parts:
            return None
        now = set(found)
        gone = {(place, GONE) for place, _ in self._known - now}
        new = now - self._known
        kinds = {*_kinds(new), *self._lacks(new)} - self._kinds
        return frozenset(gone | {(self._place(place), kind) for place, kind in kinds})

    @property
    def is_intact(self) -> bool:
        """Whether what was read is still as it was: parts of it may stand in what is read later."""
        return parts(self._content) == self._parts

    def _lacks(self, found: Iterable[Part]) -> Iterator[Kind]:
        """What parts lack that others have at their places."""
        for place, data in found:
            part = marshal.loads(data)
            if isinstance(part, dict):
                yield from ((f"{place}.{name}", LACKING) for name in self._names[place] - part.keys())

    def _place(self, place: str) -> str:
        """The place, or the innermost one around it that an undamaged file has: made-up names are alike."""
        known = place
        while known not in self._places:
            known = known.rpartition(".")[0]
        return known if known == place else f"{known}.?"


def parts(content: Any, known: Known = MappingProxyType({}), keep: KeptParts | None = None) -> list[Part]:
    """The parts of what was read, in order: each entry of a list, each field, each column of rows.

    `known`: the parts of objects that were met before. Those of this content's are left in `keep`.
    """
    walk = _Walk(known, keep)
    walk.value(content, "")
    return walk.found


class _Walk:
    def __init__(self, known: Known, keep: KeptParts | None) -> None:
        self.found: list[Part] = []
        self._known, self._keep = known, keep
        self._told: set[int] = set()  # each rank has the samples of its host, and what was run

    def value(self, value: Any, place: str) -> None:
        """All parts of a value; of one that was met, none."""
        if isinstance(value, (list, tuple, Mapping, np.ndarray)):
            if id(value) in self._told:
                return
            self._told.add(id(value))
            self._remembered(value, place)
        elif is_dataclass(value):
            for name in _field_names(type(value)):
                self.value(getattr(value, name), f"{place}.{name}")
        else:
            self.found.append((place, _data(value) or marshal.dumps(str(value), 0)))

    def _remembered(self, value: Any, place: str) -> None:
        known = self._known.get((id(value), place))
        if known is not None:
            self.found += known
            return
        begin = len(self.found)
        if isinstance(value, np.ndarray):
            self.found += _columns(value, place)
        elif isinstance(value, Mapping):
            self._item(value, place)
        else:
            for item in value:
                self._item(item, place)
        if self._keep is not None:
            self._keep[id(value), place] = self.found[begin:]

    def _item(self, value: Any, place: str) -> None:
        """One part where it is plain; else the parts of it."""
        data = _data(value)
        if data is not None:
            event = value.get("event") if isinstance(value, dict) else None
            self.found.append((f"{place}.{event}" if isinstance(event, str) else place, data))
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                self.value(inner, f"{place}.{key}")
        else:
            self.value(value, place)


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _data(value: Any) -> bytes | None:
    """Plain values as bytes; None for others."""
    if is_dataclass(value):
        return None  # before marshal tries all that is in it
    try:
        return marshal.dumps(value, 0)  # 0: equal values are equal bytes, whichever objects they are
    except ValueError:
        return None


def _columns(rows: np.ndarray[Any, Any], place: str) -> Iterator[Part]:
    for name in rows.dtype.names or ():
        yield f"{place}.{name}", marshal.dumps((ARRAY, rows.dtype[name].str, rows[name].tobytes()), 0)
    if not rows.dtype.names:
        yield place, marshal.dumps((ARRAY, rows.dtype.str, rows.tobytes()), 0)


def _kinds(found: Iterable[Part]) -> Iterator[Kind]:
    for place, data in found:
        yield from _kinds_of(marshal.loads(data), place)


def _kinds_of(value: Any, place: str) -> Iterator[Kind]:
    if isinstance(value, tuple) and value and value[0] == ARRAY:
        column = np.frombuffer(value[2], value[1])
        if len(column) and column.dtype.kind in "iuf":
            yield place, f"from {_kind(column.min().item())}"
            yield place, f"to {_kind(column.max().item())}"
        else:
            yield place, f"{len(column) > 0} {column.dtype.kind}"
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _kinds_of(inner, f"{place}.{key}")
    elif isinstance(value, (list, tuple)) and value:
        for inner in value:
            yield from _kinds_of(inner, f"{place}.[]")
    else:
        yield place, _kind(value)


def _kind(value: Any) -> str:
    """Values of one kind are those that are likely to go the same way."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float)):
        if value != value:
            return "nan"
        return f"{type(value).__name__} {'-' if value < 0 else ''}{bisect(SIZES, abs(value))}"
    if isinstance(value, str):
        length = "empty" if not value else "long" if len(value) > LONG else "text"
        return f"{length} {value.isascii()} {value.isprintable()}"
    return type(value).__name__
