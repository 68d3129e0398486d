"""Dataclasses from the objects of JSON files, whose every value has to be of the kind that is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")


def checked(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """A dataclass from the values that it knows: later versions may have written more.

    Raises ValueError where a value is of another kind than declared, TypeError where one is missing.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{kind.__name__} cannot be {values!r:.80}")
    hints = _hints(kind)  # type: ignore[arg-type]  # mypy asks instances, not the class, for a hash
    known = {name: value for name, value in values.items() if name in hints}
    for name, value in known.items():
        if not _fits(hints[name], value):
            raise ValueError(f"{kind.__name__}.{name} cannot be {value!r:.80}")
    return kind(**known)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def _fits(hint: Any, value: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(part, value) for part in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and _fits_each(arguments, value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(arguments[1], inner) for inner in value.values())
    if hint is Any:
        return True
    if hint in (int, float):  # True is no number here, and 3 is a float
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)


def _fits_each(hints: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    if hints[1:] == (...,):
        return all(_fits(hints[0], value) for value in values)
    return len(hints) == len(values) and all(map(_fits, hints, values))
