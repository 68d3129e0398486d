"""JSON lines of the probe become typed events, whatever a line lacks or holds instead.

A value of the wrong kind reads as what the declaration says of an absent one: None, its default, or nothing.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from perfdoctor.runs.directory import Json
from perfdoctor.wire import events
from perfdoctor.wire.events import Event, Signed

AnyEvent = TypeVar("AnyEvent", bound=Event)
Read = Callable[[Any], Any]  # the value, or WRONG

WRONG = object()


def decoded(kind: type[AnyEvent], entries: Iterable[Json]) -> list[AnyEvent]:
    """The entries that are events of this kind, in order."""
    return [_decode(kind, entry) for entry in entries if entry.get("event") == kind.event]


def absent(kind: type[AnyEvent]) -> AnyEvent:
    """An event of this kind of which nothing is known."""
    return _decode(kind, {})


def sanitized(entry: Json) -> Json:
    """The entry without values of another kind than its event declares; what no declaration names stays."""
    name = entry.get("event")
    kind = _kinds().get(name) if isinstance(name, str) else None
    read = {} if kind is None else _readers(kind)  # type: ignore[arg-type]  # as below
    return {key: value for key, value in entry.items() if key not in read or read[key](value) is not WRONG}


@cache
def _kinds() -> Mapping[str, type[Event]]:
    """Every kind of event, by its name."""
    return {kind.event: kind for kind in declared()}


@cache
def _readers(kind: type[Event]) -> Mapping[str, Read]:
    """How each key of a kind of event is read."""
    return {name.rstrip("_"): _reader(_present(hint)) for name, hint in hints(kind).items()}


def declared() -> list[type[Event]]:
    """Every kind of event that is declared below `perfdoctor/wire/events/`."""
    names = [info.name for info in pkgutil.iter_modules(events.__path__, f"{events.__name__}.")]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    kinds = dict.fromkeys(kind for kind in values if isinstance(kind, type) and issubclass(kind, Event))
    return [kind for kind in kinds if kind.event]  # others only say what several kinds have in common


def _decode(kind: type[AnyEvent], entry: Json) -> AnyEvent:
    fields = _fields(kind)  # type: ignore[arg-type]  # mypy asks instances, not the class, for a hash
    return kind(**{name: read(entry) for name, read in fields.items()})


@cache
def _fields(kind: type[Event]) -> Mapping[str, Read]:
    """How each field of a kind of event is read from an entry."""
    return {
        name: _field(name.rstrip("_"), hint, getattr(kind, name, WRONG)) for name, hint in hints(kind).items()
    }


def hints(kind: type[Event]) -> Mapping[str, Any]:
    """What each field of a kind of event is declared to hold."""
    every = get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in every.items() if get_origin(hint) is not ClassVar}


def _field(key: str, hint: Any, default: Any) -> Read:
    optional = _present(hint) is not hint
    hint = _present(hint)
    read = _reader(hint)

    def field(entry: Json) -> Any:
        value = read(entry.get(key))
        if value is not WRONG:
            return value
        if default is not WRONG:
            return default
        return None if optional else _empty(hint)

    return field


def _present(hint: Any) -> Any:
    """What a value is where it is not None."""
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        return next(part for part in get_args(hint) if part is not NoneType)
    return hint


def _reader(hint: Any) -> Read:
    if get_origin(hint) is list:
        return _list_of(_reader(get_args(hint)[0]))
    if get_origin(hint) is dict:
        return lambda value: value if isinstance(value, dict) else WRONG
    return READERS.get(hint, lambda value: value)


def _empty(hint: Any) -> Any:
    """The empty value of a kind: 0, "", False, a list or a dictionary without entries."""
    made = get_origin(hint) or hint
    return 0 if hint is Signed else made() if made in (*READERS, list, dict) else None


def _list_of(read: Read) -> Read:
    def entries(value: Any) -> Any:
        if not isinstance(value, list):
            return WRONG
        items = [read(item) for item in value]
        # what is left would mean another thing
        return WRONG if any(item is WRONG for item in items) else items

    return entries


def _number(value: Any) -> Any:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return WRONG
    return float(value)


def _signed(value: Any) -> Any:
    """A whole number; one that JSON holds as 3.0 as well."""
    number = _number(value)
    return int(value) if number is not WRONG and number == math.floor(number) else WRONG


def _count(value: Any) -> Any:
    """A whole number of 0 or more."""
    number = _signed(value)
    return number if number is not WRONG and number >= 0 else WRONG


READERS: Mapping[Any, Read] = {
    int: _count,
    Signed: _signed,
    float: _number,
    str: lambda value: value if isinstance(value, str) else WRONG,
    bool: lambda value: bool(value) if isinstance(value, int) else WRONG,
}
