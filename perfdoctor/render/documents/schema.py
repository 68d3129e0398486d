"""JSON Schemas of the public documents, from the types that they are made of.

What types do not say, such as the meaning of a field or its least value, is in docs/schema_notes.json.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from perfdoctor.model.measured import Marker
from perfdoctor.model.note import Note
from perfdoctor.render.documents.encoder import ALL, Document, Json, Shape

PLAIN = {str: "string", Note: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
COMMENT = re.compile(r"^    (\w+): [^#\n]*?  # (.*)$", re.MULTILINE)
PROMISE = (
    "Fields are added, never renamed; a reader ignores those it does not know. What was not measured is null"
    " or absent, never zero. A share runs from 0 to 1; a gain is a speedup, 1.0 = none."
)


def schema(document: Document, notes: Mapping[str, Json]) -> Json:
    """The JSON Schema of a document. `notes`: further keywords of `Type.field`, or of its entries (`[]`)."""
    types_of = _Types(document, notes)
    root = types_of.object(document.root)
    root["properties"] = {"schema": {"const": document.schema}, **root["properties"]}
    root["required"] = ["schema", *root["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": document.schema,
        "description": f"{document.about} {PROMISE}",
        **root,
        "$defs": dict(sorted(types_of.definitions.items())),
    }


class _Types:
    def __init__(self, document: Document, notes: Mapping[str, Json]) -> None:
        self._document = document
        self._notes = notes
        self.definitions: dict[str, Json] = {}

    def object(self, kind: type) -> Json:
        """What is known of a dataclass."""
        shape = self._document.shapes.get(kind, ALL)
        comments = _comments(kind)
        properties = {}
        for name, place in shape.sources(kind):
            told = {"description": comments[place]} if place in comments else {}
            keywords = self._of(_hint(kind, shape, name, place)) | told
            properties[name] = keywords | self._notes.get(f"{kind.__name__}.{name}", {})
            _entries(properties[name]).update(self._notes.get(f"{kind.__name__}.{name}[]", {}))
        return {
            "type": "object",
            "description": (kind.__doc__ or "").partition("\n")[0],
            "required": [name for name in properties if name not in self._later(kind)],
            "properties": properties,
        }

    def _later(self, kind: type) -> Sequence[str]:
        """Fields that documents of before do not have."""
        later: Sequence[str] = self._notes.get(kind.__name__, {}).get("later", ())
        return later

    def _of(self, hint: Any) -> Json:
        """The keywords of a type."""
        origin, inner = get_origin(hint), get_args(hint)
        if hint is Any:
            return {}
        if hint in PLAIN:
            return {"type": PLAIN[hint]}
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in (Union, types.UnionType):
            return self._either([self._of(kind) for kind in inner])
        if origin is not None and issubclass(origin, Mapping):
            names = {"propertyNames": self._of(inner[0])} if inner[0] is not str else {}
            return {"type": "object", **names, "additionalProperties": self._of(inner[1])}
        if origin is not None and issubclass(origin, Sequence):
            return {"type": "array", "items": self._of(inner[0])}
        if issubclass(hint, Enum):
            return {"enum": [one.name.lower() if hint is Marker else one.value for one in hint]}
        return self._reference(hint)

    def _either(self, kinds: Sequence[Json]) -> Json:
        if all(set(kind) == {"type"} for kind in kinds):
            names = list(dict.fromkeys(kind["type"] for kind in kinds))
            return {"type": names if len(names) > 1 else names[0]}
        return {"anyOf": list(kinds)}

    def _reference(self, kind: type) -> Json:
        if not is_dataclass(kind):
            raise TypeError(f"no schema is known for {kind}")
        if kind.__name__ not in self.definitions:
            self.definitions[kind.__name__] = {}  # it may hold itself
            self.definitions[kind.__name__] = self.object(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}


def _hint(kind: type, shape: Shape, name: str, place: str) -> Any:
    """The type of a field of a document."""
    if name in shape.made:
        return _returned(shape.made[name])
    hint, may_be_none = kind, False
    for part in place.split("."):
        members = [member for member in get_args(hint) if member is not type(None)]
        if members and get_origin(hint) in (Union, types.UnionType):
            hint, may_be_none = members[0], True
        member = inspect.getattr_static(hint, part, None)
        function = getattr(member, "fget", None) or getattr(member, "func", None)
        hint = _returned(function) if function else get_type_hints(hint)[part]
    return hint | None if may_be_none else hint


def _entries(keywords: Json) -> Json:
    """The keywords of what a list or a mapping holds."""
    holders = (holder for holder in (keywords, *keywords.get("anyOf", ())))
    inner = (holder.get("items") or holder.get("additionalProperties") for holder in holders)
    return next(filter(None, inner), {})


def _returned(function: Any) -> Any:
    """What a function returns; the types of its parameters need not be known where it runs."""
    only = types.SimpleNamespace(__annotations__={"return": function.__annotations__["return"]})
    return get_type_hints(only, globalns=function.__globals__)["return"]


def _comments(kind: type) -> dict[str, str]:
    """What stands behind the fields of a type in its source."""
    return {
        name: comment
        for one in reversed(kind.__mro__)
        if is_dataclass(one)
        for name, comment in COMMENT.findall(inspect.getsource(one))
    }
