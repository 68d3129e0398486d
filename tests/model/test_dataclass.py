"""Our frozen dataclasses are those of the library."""

from __future__ import annotations

import dataclasses
from typing import Any

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
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 3


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
