"""Our frozen dataclasses are those of the library."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar

import pytest

from perfdoctor.model import dataclass as ours

LIBRARY, OURS = dataclasses.dataclass, ours.dataclass


def declare(decorator: Any) -> Any:
    @decorator(frozen=True)
    class Point:
        x: int
        y: float = 0.5
        seen: str = dataclasses.field(default="", compare=False)
        hidden: str = dataclasses.field(default="", repr=False)
        more: dict[str, int] = dataclasses.field(default_factory=dict, hash=False, repr=False)

    return Point


@pytest.mark.parametrize("decorator", [LIBRARY, OURS])
def test_a_frozen_class_compares_hashes_and_shows_as_in_the_library(decorator: Any) -> None:
    point = declare(decorator)
    one = point(1)
    assert one == point(1, seen="elsewhere")
    assert hash(one) == hash(point(1, seen="elsewhere")) == hash(point(1, more={"a": 1}))
    assert all(
        one != other
        for other in (
            point(1, hidden="h"),
            point(2),
            point(1, more={"a": 1}),
            declare(decorator)(1),
            (1, 0.5, ""),
        )
    )
    assert repr(one).endswith("Point(x=1, y=0.5, seen='')")
    assert dataclasses.replace(one, y=1.5) == point(1, 1.5)
    assert len({one, point(1), point(3)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 3
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'y'"):
        del one.y
    match one:
        case point(x, y):
            assert (x, y) == (1, 0.5)
    assert (point.seen, hasattr(point, "more")) == ("", False)


def test_what_a_class_defines_itself_stays() -> None:
    @OURS(frozen=True)
    class Name:
        text: str

        def __repr__(self) -> str:
            return self.text

    assert repr(Name("a")) == "a"
    assert Name("a") == Name("a")


def test_a_class_without_fields_and_one_that_is_not_frozen() -> None:
    @OURS(frozen=True)
    class Nothing:
        pass

    @OURS
    class Count:
        seen: int = 0

    count = Count()
    count.seen += 1
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1
    assert count == Count(1)


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the classes that the library completes."""
    names = []

    def dataclass(declared: Any, **options: Any) -> Any:
        names.append(declared.__name__)
        return LIBRARY(declared, **options)

    monkeypatch.setattr(dataclasses, "dataclass", dataclass)
    return names


def test_a_class_is_completed_when_its_first_object_is_made(completed: list[str]) -> None:
    point = declare(OURS)
    assert completed == []
    assert [point(1).x, point(x=2).x] == [1, 2]
    assert completed == ["Point"]
    assert [field.name for field in dataclasses.fields(point)] == ["x", "y", "seen", "hidden", "more"]
    assert completed == ["Point"]


def test_a_class_is_completed_when_its_fields_are_asked_for(completed: list[str]) -> None:
    point = declare(OURS)
    assert dataclasses.is_dataclass(point)
    assert completed == ["Point"]
    assert dataclasses.asdict(point(1, more={"a": 1}))["more"] == {"a": 1}
    assert completed == ["Point"]


def test_the_first_object_is_refused_as_any_other_is_where_arguments_are_wrong() -> None:
    point = declare(OURS)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required positional argument: 'x'"):
            point()


def test_a_class_has_a_constructor_while_another_thread_completes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    point = declare(OURS)

    def dataclass(declared: Any, **options: Any) -> Any:
        made = LIBRARY(declared, **options)
        assert "__init__" in vars(point)
        return made

    monkeypatch.setattr(dataclasses, "dataclass", dataclass)
    assert point(1).x == 1


def test_an_object_that_no_constructor_made_is_as_others_are() -> None:
    """As one is that another process sent."""
    point = declare(OURS)
    one, other = object.__new__(point), object.__new__(point)
    for sent in (one, other):
        vars(sent).update(x=1, y=0.5, seen="", hidden="", more={})
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 3
    assert hash(one) == hash(other)
    assert one == other == point(1)
    assert repr(one).endswith("Point(x=1, y=0.5, seen='')")


Value = TypeVar("Value")


def test_a_class_with_a_base_has_the_fields_of_both() -> None:
    far = declare(OURS)

    @OURS(frozen=True)
    class Near(far):
        z: int = 2

    @OURS(frozen=True)
    class Box(Generic[Value]):
        value: Value

    assert Near(1, 1.5, z=3) == Near(1, 1.5, z=3) != Near(1, 1.5)
    assert Near(1) != far(1)
    assert repr(Near(1)).endswith("Near(x=1, y=0.5, seen='', z=2)")
    assert Box[int](1) == Box(1)


def test_what_is_to_be_done_after_a_constructor_is_done() -> None:
    seen = []

    @OURS(frozen=True)
    class Told:
        x: int

        def __post_init__(self) -> None:
            seen.append(self.x)

    Told(1), Told(2)
    assert seen == [1, 2]
