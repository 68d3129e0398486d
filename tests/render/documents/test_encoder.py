from __future__ import annotations

import json
from dataclasses import dataclass

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location, Marker
from perfdoctor.render.documents.encoder import TOO_LARGE, Document, Shape


@dataclass(frozen=True)
class Inner:
    name: str
    count: int = 0

    @property
    def doubled(self) -> int:
        return 2 * self.count


@dataclass(frozen=True)
class Outer:
    kind: Bottleneck
    inner: Inner | None
    at: Location
    left: tuple[Inner, ...] = ()


def encoded(value, *shapes, cwd=""):
    return Document("x/1", type(value), "", dict(shapes), lambda value: cwd).document(value)


VALUE = Outer(Bottleneck.DATA, Inner("a", 3), Location("/home/ada/train.py", 7), (Inner("b"),))


def test_a_type_without_a_shape_has_all_its_fields():
    assert encoded(VALUE) == {
        "schema": "x/1",
        "kind": "data",
        "inner": {"name": "a", "count": 3},
        "at": {"file": "/home/ada/train.py", "line": 7, "function": None, "text": None, "whole": None},
        "left": [{"name": "b", "count": 0}],
    }


def test_a_field_can_be_left_out_called_otherwise_where_it_stands_and_taken_from_below():
    shape = Shape("* -at -left class=kind name=inner.name")
    assert list(encoded(VALUE, (Outer, shape))) == ["schema", "class", "inner", "name"]
    assert encoded(Outer(Bottleneck.HOST, None, VALUE.at), (Outer, shape))["name"] is None


def test_properties_and_what_is_computed_are_fields_too():
    shape = Shape("name doubled first", first=lambda inner: inner.name[0])
    assert encoded(VALUE, (Inner, shape))["inner"] == {"name": "a", "doubled": 6, "first": "a"}


def test_files_below_the_folder_are_named_from_there():
    assert encoded(VALUE, cwd="/home/ada")["at"]["file"] == "train.py"


def test_numbers_that_no_reader_can_hold_are_null_and_markers_are_called_by_name():
    values = {"large": TOO_LARGE, "fits": TOO_LARGE - 1, "marker": Marker.UPDATE}
    assert encoded(Inner("a", values))["count"] == {"large": None, "fits": TOO_LARGE - 1, "marker": "update"}


def test_text_is_indented_and_ends_with_a_newline():
    written = Document("x/1", Outer, "", {}).dumps(VALUE)
    assert written.startswith(b'{\n  "schema": "x/1"')
    assert written.endswith(b"}\n")
    assert json.loads(written)["inner"]["name"] == "a"
