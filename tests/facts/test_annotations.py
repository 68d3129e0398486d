"""Annotations are read as the library reads them."""

from __future__ import annotations

import typing

import pytest

from perfdoctor.facts import registry
from perfdoctor.facts.annotations import types_of
from perfdoctor.model.missing import Missing
from perfdoctor.tips import catalogue


def test_what_facts_and_tips_need_is_what_the_library_reads() -> None:
    functions = [*(made.make for made in registry.facts()), *(tip.judge for tip in catalogue.tips())]
    assert {function: types_of(function) for function in functions} == {
        function: typing.get_type_hints(function) for function in functions
    }


def name_of_the_library(given: int) -> str: ...


def expression(given: dict[str, Missing] | None, other: Missing | None) -> None: ...


def evaluated(given: Missing) -> None: ...


evaluated.__annotations__ = {"given": Missing, "return": None}


@pytest.mark.parametrize("function", [name_of_the_library, expression, evaluated])
def test_other_forms_are_left_to_the_library(function: typing.Callable[..., object]) -> None:
    assert types_of(function) == typing.get_type_hints(function)
