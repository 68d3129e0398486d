"""Checksums of values, by which two of them can be told apart without being kept.

A checksum reads a bounded part of a value, calls no code of the script's and nothing that could change it. Of
what it cannot read it says so: UNREADABLE, which is equal to nothing.
"""

from __future__ import annotations

import io
import itertools
import re
import sys
from collections import UserDict
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Collection, Optional
from zlib import crc32

from .tensor_elements import elements_of

Checksum = Optional[int]

UNREADABLE = None
DEEPEST = 4  # containers inside containers
ENDS = 4  # elements read at either end of any container
NUMBERS = 64  # elements read of any array, evenly spread
LONGEST = 256  # characters or bytes read at either end of any text
WHOLE_NUMBERS = 1 << 18  # of a whole item, characters included: an image's, in a millisecond at most
WHOLE_PARTS = 2048  # of a whole item: elements of its containers, at about a microsecond each
PARTS_MAX = 20_000  # beyond those, of a value with containers in containers
BARE = object.__basicsize__ + 2 * tuple.__itemsize__  # bytes of an object: attributes, references to it
FIELDS = 16  # attributes of an object
SCALARS = (type(None), bool, int, float, complex, str, bytes, range, slice)
FILES = (io.TextIOWrapper, io.BufferedReader, io.BufferedRandom, io.FileIO)
NAMED = (type, FunctionType, BuiltinFunctionType, ModuleType)


def checksum(value: Any, lasting: Collection[int] = ()) -> Checksum:
    """The checksum of a value. `lasting`: ids of objects that live on, and are the same if their id is."""
    return _Reading(lasting).of(value)


def whole_checksum(value: Any) -> Checksum:
    """The checksum of all that an item of a dataset holds; of a very large one, of a part of it."""
    return _Reading((), WHOLE_NUMBERS, WHOLE_PARTS).of(value)


class _Reading:
    """What may still be read for one checksum, beyond what is read of anything."""

    def __init__(self, lasting: Collection[int], numbers: int = 0, parts: int = 0) -> None:
        self.lasting = lasting
        self.numbers = numbers
        self.parts = parts

    def of(self, value: Any, depth: int = 0) -> Checksum:
        """The checksum of a value that lies in so many containers."""
        if id(value) in self.lasting:
            return crc32(f"id {id(value)}".encode())
        kind = type(value)
        if kind in SCALARS:
            return self._of_scalar(value)
        if issubclass(kind, NAMED):
            name = getattr(value, "__qualname__", repr(kind))
            return _of_text(f"{getattr(value, '__module__', '')}.{name}")
        if depth >= DEEPEST or self.parts < -PARTS_MAX:
            return UNREADABLE
        if kind in (list, tuple):
            return self._of_parts(kind.__name__, len(value), self._ends(value), depth)
        if kind is dict:
            first = list(itertools.islice(value.items(), LONGEST))
            return self._of_parts("dict", len(value), self._ends(first), depth)
        if issubclass(kind, UserDict):  # as tokenizers return
            return self.of(vars(value).get("data"), depth + 1)
        if kind in (set, frozenset):
            # in no order, and that of texts differs between processes: their number has to do
            return _of_text(f"{kind.__name__} {len(value)}")
        if issubclass(kind, PurePath):
            return _of_text(f"path {value}")
        if kind is re.Pattern:
            return _of_text(f"pattern {value.flags} {value.pattern!r}")
        if kind in FILES:
            return _of_text(f"file {value.name}") if hasattr(value, "name") else UNREADABLE
        if kind is MethodType:
            return self._of_parts(value.__func__.__qualname__, 0, (value.__self__,), depth)
        return self._of_library(value, kind, depth)

    def _of_library(self, value: Any, kind: type, depth: int) -> Checksum:
        """Of an array, a tensor, a data frame, or any object whose attributes can be read."""
        numpy, torch, pandas, images = map(sys.modules.get, ("numpy", "torch", "pandas", "PIL.Image"))
        if torch is not None and kind is torch.Tensor:
            with torch._C.DisableTorchFunction():  # a mode of the script's would see it
                plain = value.is_cpu and value.layout == torch.strided and not value.requires_grad
                elements = elements_of(value) if plain else None
            return UNREADABLE if elements is None else self._of_array(elements)
        if numpy is not None and kind is numpy.ndarray:
            return self._of_array(value)
        if numpy is not None and issubclass(kind, numpy.generic):
            return _of_text(f"{kind.__name__} {value!r}")
        if kind in (getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None)):
            corners = [] if not value.size else [value.iat[place] for place in _corners(value.shape)]
            parts = [*map(str, value.axes[-1][:ENDS]), *corners]
            return self._of_parts(kind.__name__, len(value), parts, depth)
        if images is not None and kind is images.Image:
            return self._of_image(value)
        if kind.__basicsize__ > BARE or not kind.__dictoffset__:
            return UNREADABLE  # what it holds is not, or not only, among its attributes
        fields = object.__getattribute__(value, "__dict__")
        read = list(itertools.islice(fields.items(), FIELDS))
        return self._of_parts(f"{kind.__module__}.{kind.__qualname__}", len(fields), read, depth)

    def _of_image(self, image: Any) -> Checksum:
        """Of a small image of Pillow's that is loaded. One with a palette may change when it is read."""
        size = image.width * image.height * len(image.getbands())
        if size > max(NUMBERS, self.numbers) or image.mode == "P":
            return UNREADABLE
        self.numbers -= size
        return crc32(image.tobytes(), _of_text(f"image {image.mode} {image.size}"))

    def _of_array(self, array: Any) -> Checksum:
        """Of an array: its shape and all elements, or some that are evenly spread over it."""
        if array.dtype.hasobject:
            return UNREADABLE
        stride = max(1, array.size // max(NUMBERS, self.numbers))
        spread = array if stride == 1 else array.flat[::stride]
        self.numbers -= spread.size
        return crc32(spread.tobytes(), _of_text(f"{array.dtype} {array.shape}"))

    def _of_scalar(self, value: Any) -> int:
        if type(value) in (str, bytes):
            most = max(LONGEST, self.numbers // 2)
            if len(value) > 2 * most:
                value = (len(value), value[:most], value[-most:])
            self.numbers -= min(len(value), 2 * most)
        elif type(value) is int and value.bit_length() > 8 * LONGEST:
            value = value.bit_length()
        return _of_text(repr(value))

    def _ends(self, values: Any) -> Any:
        most = max(ENDS, self.parts // 2)
        return values if len(values) <= 2 * most else [*values[:most], *values[-most:]]

    def _of_parts(self, name: str, size: int, parts: Collection[Any], depth: int) -> Checksum:
        self.parts -= len(parts)
        total = _of_text(f"{name} {size}")
        for part in parts:
            of_part = self.of(part, depth + 1)
            if of_part is UNREADABLE:
                return UNREADABLE
            total = crc32(of_part.to_bytes(4, "little"), total)
        return total


def _corners(shape: tuple[int, ...]) -> list[Any]:
    """The first element and the last, as places for `iat`."""
    places = [tuple(0 for _ in shape), tuple(size - 1 for size in shape)]
    return [place if len(place) > 1 else place[0] for place in places]


def _of_text(text: str) -> int:
    return crc32(text.encode("utf-8", "backslashreplace"))
