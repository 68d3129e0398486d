"""What containers and objects of the script's hold, read past what its own classes do instead."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

SEQUENCES = (list, tuple, deque)


def is_a(value: Any, kinds: Any) -> TypeGuard[Any]:
    """Whether a value is of one of these kinds, a class or several.

    `isinstance` asks the value as well what it is: a lazy one of the script's is computed to tell it.
    """
    return issubclass(type(value), kinds)


def is_sequence(value: Any) -> bool:
    """Whether it is a list, tuple or deque; not what only says so of itself."""
    return is_a(value, SEQUENCES)


def is_mapping(value: Any) -> bool:
    """Whether it is a dict; not what only says so of itself."""
    return is_a(value, dict)


def length_of(sequence: Any) -> int:
    """How many items a sequence holds."""
    return int(_kind_of(sequence).__len__(sequence))


def first_of(sequence: Any, most: int) -> List[Any]:
    """Its first items."""
    return list(islice(_kind_of(sequence).__iter__(sequence), most))


def ends_of(sequence: Any, most: int) -> List[Any]:
    """So many of its items at each end; some twice, where it is short."""
    kind, length = _kind_of(sequence), length_of(sequence)
    count = min(most, length)
    # Not from -1 on: of a negative index Python asks the subclass for its length.
    return [kind.__getitem__(sequence, at) for at in (*range(count), *range(length - count, length))]


def values_of(mapping: Any, most: int) -> List[Any]:
    """The first values of a dict, which may have millions."""
    return list(islice(dict.values(mapping), most))


def tensors_in(kind: type, value: Any, most: int, depth: int = 3) -> List[Any]:
    """The first tensors of this type in lists and dicts of them, so deep."""
    if is_a(value, kind):
        return [value]
    if not depth or not (is_sequence(value) or is_mapping(value)):
        return []
    items = values_of(value, most) if is_mapping(value) else first_of(value, most)
    return [tensor for item in items for tensor in tensors_in(kind, item, most, depth - 1)][:most]


def fields_of(value: Any) -> Dict[str, Any]:
    """The attributes that an object holds itself; none where it has no dictionary of them."""
    try:
        fields = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return fields if type(fields) is dict else {}


def held_by(value: Any, name: str) -> Any:
    """An attribute of an object or of its class; a property as it is, and None where there is none."""
    places = (fields_of(value), *map(vars, type(value).__mro__))
    return next((place[name] for place in places if name in place), None)


def _kind_of(sequence: Any) -> Any:
    return next(kind for kind in SEQUENCES if issubclass(type(sequence), kind))
