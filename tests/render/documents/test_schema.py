from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema
import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.render.documents.encoder import Document, Shape
from perfdoctor.render.documents.schema import schema


@dataclass(frozen=True)
class Part:
    """A part."""

    name: str  # what it is called
    share: float


@dataclass(frozen=True)
class Whole:
    """A whole."""

    kind: Bottleneck
    parts: tuple[Part, ...]
    best: Part | None = None
    seconds: Mapping[Bottleneck, float] = field(default_factory=dict)
    count: int | None = None
    odd: Any = None


def told(whole: Whole) -> Literal["yes", "no"]:
    return "yes"


DOCUMENT = Document(
    "perfdoctor.whole/1", Whole, "A whole.", {Whole: Shape("* best_name=best.name told", told=told)}
)
NOTES = {
    "Part.share": {"maximum": 1},
    "Whole.seconds[]": {"minimum": 0},
    "Whole": {"later": ["count"]},
}
WHOLE = Whole(Bottleneck.DATA, (Part("a", 0.5),), seconds={Bottleneck.HOST: 1.0})


def errors(**changed):
    document = DOCUMENT.document(WHOLE) | changed
    document = {name: value for name, value in document.items() if value != "absent"}
    return list(jsonschema.Draft202012Validator(schema(DOCUMENT, NOTES)).iter_errors(document))


def test_what_the_encoder_writes_is_what_the_schema_describes():
    assert errors() == []
    assert errors(best={"name": "a", "share": 0.1}, best_name="a", count=3, odd=[1]) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": "perfdoctor.whole/2"},
        {"kind": "magic"},
        {"parts": [{"name": 7, "share": 0.5}]},
        {"parts": [{"name": "a"}]},
        {"parts": [{"name": "a", "share": 1.5}]},
        {"seconds": {"magic": 1.0}},
        {"seconds": {"host": -1.0}},
        {"best": 3},
        {"best_name": 3},
        {"told": "maybe"},
        {"kind": "absent"},
    ],
    ids=str,
)
def test_what_is_not_of_the_type_is_found(changed):
    assert errors(**changed)


def test_a_field_that_was_added_later_may_be_missing():
    assert errors(count="absent") == []


def test_comments_of_fields_and_first_lines_of_types_are_descriptions():
    part = schema(DOCUMENT, NOTES)["$defs"]["Part"]
    assert part["description"] == "A part."
    assert part["properties"]["name"]["description"] == "what it is called"
