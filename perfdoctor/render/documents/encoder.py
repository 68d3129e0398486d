"""Public JSON documents from typed results: one encoder, and a table of how a type's fields are called.

Fields are added, never renamed. What was not measured is null or absent, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from enum import Enum
from typing import Any

import orjson

from perfdoctor.model import json_bytes
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Marker
from perfdoctor.model.note import Note
from perfdoctor.render.notes import worded
from perfdoctor.render.text import path

TOO_LARGE = 2**63  # whole numbers from here on do not fit into 64 bits: only a damaged file yields them

Json = dict[str, Any]


class Shape:
    """The fields that a document has of a type, in order, as words.

    `*` are all fields of the type, `-name` leaves one of them out, `class=kind` calls it otherwise, where it
    stands; another name is that of a property, or of a field of a field (`because=advice.because`). What is
    `made` is computed by a function of the value.
    """

    def __init__(self, words: str, **made: Callable[[Any], Any]) -> None:
        self._words = words.split()
        self.made = made

    def sources(self, kind: type) -> Iterator[tuple[str, str]]:
        """Each field's name in the document, and the path to its value."""
        own = [one.name for one in fields(kind)] if is_dataclass(kind) else []
        named = [word.partition("=") for word in self._words if word != "*" and not word.startswith("-")]
        paths = {name: path or name for name, _, path in named}
        if "*" in self._words:
            renamed = {path: name for name, path in paths.items()}
            kept = [name for name in own if f"-{name}" not in self._words]
            yield from ((renamed.get(name, name), name) for name in kept)
            paths = {name: path for name, path in paths.items() if path not in kept}
        yield from paths.items()


ALL = Shape("*")
Shapes = Mapping[type, Shape]


@dataclass(frozen=True)
class Document:
    """A public document: its name and version, the type that it is made of, and the shapes of types in it."""

    schema: str
    root: type
    about: str
    shapes: Shapes
    cwd: Callable[[Any], str] = field(default=lambda value: "")  # files below it are named as seen from there

    def document(self, value: Any) -> Json:
        """The document as plain dictionaries and lists."""
        encoded = _Encoder(self.shapes, self.cwd(value)).encode(value)
        return {"schema": self.schema, **encoded}

    def dumps(self, value: Any) -> bytes:
        """The document as indented UTF-8 text that ends with a newline."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
        return json_bytes.dumps(self.document(value), options)


class _Encoder:
    def __init__(self, shapes: Shapes, cwd: str) -> None:
        self._shapes = shapes
        self._cwd = cwd
        self._getters: dict[type, list[tuple[str, Callable[[Any], Any]]]] = {}

    def encode(self, value: Any) -> Any:
        """A value as JSON holds it."""
        if isinstance(value, Enum):
            return value.name.lower() if isinstance(value, Marker) else value.value
        if isinstance(value, Note):
            return worded(value)
        if isinstance(value, Mapping):
            return {self.encode(name): self.encode(inner) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.encode(inner) for inner in value]
        if is_dataclass(value):
            return {name: self.encode(get(value)) for name, get in self._getters_of(type(value))}
        return None if type(value) is int and abs(value) >= TOO_LARGE else value

    def _getters_of(self, kind: type) -> list[tuple[str, Callable[[Any], Any]]]:
        if kind not in self._getters:
            shape = self._shapes.get(kind, ALL)
            self._getters[kind] = [
                (name, self._getter(kind, shape, name, path)) for name, path in shape.sources(kind)
            ]
        return self._getters[kind]

    def _getter(self, kind: type, shape: Shape, name: str, place: str) -> Callable[[Any], Any]:
        if kind is Location and name == "file":
            return lambda at: path(at.file, self._cwd)
        return shape.made.get(name) or (lambda value: _at(value, place))


def _at(value: Any, place: str) -> Any:
    """The value of a field, or of a field of a field; None where there is nothing that has it."""
    for name in place.split("."):
        value = None if value is None else getattr(value, name)
    return value
