"""Checksums of values, by which two of them can be told apart without being kept.

A checksum reads a bounded part of a value, calls no code of the script's and nothing that could change it. Of
what it cannot read it says so: UNREADABLE, which is equal to nothing.
"""

from __future__ import annotations

import io
import itertools
import re
import sys
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Collection, Iterable, Optional
from zlib import crc32

Checksum = Optional[int]

UNREADABLE = None
DEEPEST = 4  # containers inside containers
ENDS = 4  # elements read at either end of a container
NUMBERS = 64  # elements of an array, evenly spread
LONGEST = 256  # characters or bytes read at either end
BARE = object.__basicsize__ + 2 * tuple.__itemsize__  # bytes of an object: attributes, references to it
FIELDS = 16  # attributes of an object
SCALARS = (type(None), bool, int, float, complex, str, bytes, range, slice)
FILES = (io.TextIOWrapper, io.BufferedReader, io.BufferedRandom, io.FileIO)
NAMED = (type, FunctionType, BuiltinFunctionType, ModuleType)


def checksum(value: Any, lasting: Collection[int] = (), depth: int = 0) -> Checksum:
    """The checksum of a value. `lasting`: ids of objects that live on, and are the same if their id is."""
    if id(value) in lasting:
        return crc32(f"id {id(value)}".encode())
    kind = type(value)
    if kind in SCALARS:
        return _of_scalar(value)
    if isinstance(value, NAMED):
        return _of_text(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(kind))}")
    if depth >= DEEPEST:
        return UNREADABLE
    if kind in (list, tuple):
        return _of_parts(kind.__name__, len(value), _ends(value), lasting, depth)
    if kind is dict:
        first = list(itertools.islice(value.items(), LONGEST))
        return _of_parts("dict", len(value), _ends(first), lasting, depth)
    if kind in (set, frozenset):
        # in no order, and that of texts differs between processes: their number has to do
        return _of_text(f"{kind.__name__} {len(value)}")
    if isinstance(value, PurePath):
        return _of_text(f"path {value}")
    if isinstance(value, re.Pattern):
        return _of_text(f"pattern {value.flags} {value.pattern!r}")
    if kind in FILES:
        return _of_text(f"file {value.name}") if hasattr(value, "name") else UNREADABLE
    if isinstance(value, MethodType):
        return _of_parts(value.__func__.__qualname__, 0, (value.__self__,), lasting, depth)
    return _of_library(value, kind, lasting, depth)


def _of_library(value: Any, kind: type, lasting: Collection[int], depth: int) -> Checksum:
    """Of an array, a tensor, a data frame, or any object whose attributes can be read."""
    numpy, torch, pandas = (sys.modules.get(name) for name in ("numpy", "torch", "pandas"))
    if torch is not None and kind is torch.Tensor:
        plain = value.is_cpu and value.layout == torch.strided and not value.requires_grad
        try:
            return _of_array(value.numpy()) if plain else UNREADABLE
        except (RuntimeError, TypeError):  # of a kind that NumPy does not have
            return UNREADABLE
    if numpy is not None and kind is numpy.ndarray:
        return _of_array(value)
    if numpy is not None and isinstance(value, numpy.generic):
        return _of_text(f"{kind.__name__} {value!r}")
    if kind in (getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None)):
        corners = [] if not value.size else [value.iat[place] for place in _corners(value.shape)]
        parts = [*map(str, value.axes[-1][:ENDS]), *corners]
        return _of_parts(kind.__name__, len(value), parts, lasting, depth)
    if kind.__basicsize__ > BARE or not kind.__dictoffset__:
        return UNREADABLE  # what it holds is not, or not only, among its attributes
    fields = object.__getattribute__(value, "__dict__")
    read = list(itertools.islice(fields.items(), FIELDS))
    return _of_parts(f"{kind.__module__}.{kind.__qualname__}", len(fields), read, lasting, depth)


def _of_array(array: Any) -> Checksum:
    """Of an array: its shape and elements evenly spread over it."""
    if array.dtype.hasobject:
        return UNREADABLE
    spread = array.flat[:: max(1, array.size // NUMBERS)]
    return crc32(spread.tobytes(), _of_text(f"{array.dtype} {array.shape}"))


def _corners(shape: tuple[int, ...]) -> list[Any]:
    """The first element and the last, as places for `iat`."""
    places = [tuple(0 for _ in shape), tuple(size - 1 for size in shape)]
    return [place if len(place) > 1 else place[0] for place in places]


def _of_scalar(value: Any) -> int:
    if type(value) in (str, bytes) and len(value) > 2 * LONGEST:
        value = (len(value), value[:LONGEST], value[-LONGEST:])
    elif type(value) is int and value.bit_length() > 8 * LONGEST:
        value = value.bit_length()
    return _of_text(repr(value))


def _of_text(text: str) -> int:
    return crc32(text.encode("utf-8", "backslashreplace"))


def _ends(values: Any) -> Iterable[Any]:
    return values if len(values) <= 2 * ENDS else [*values[:ENDS], *values[-ENDS:]]


def _of_parts(name: str, size: int, parts: Iterable[Any], lasting: Collection[int], depth: int) -> Checksum:
    total = _of_text(f"{name} {size}")
    for part in parts:
        of_part = checksum(part, lasting, depth + 1)
        if of_part is UNREADABLE:
            return UNREADABLE
        total = crc32(of_part.to_bytes(4, "little"), total)
    return total
