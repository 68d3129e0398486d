from __future__ import annotations

from collections import deque

import pytest

from perfdoctor.probe.containers import (
    ends_of,
    fields_of,
    first_of,
    held_by,
    is_mapping,
    is_sequence,
    length_of,
    values_of,
)


def refuse(*args):
    raise AssertionError("code of the script's ran")


def own(kind):
    names = ("__getitem__", "__iter__", "__len__", "__bool__", "__reversed__", "values", "items", "keys")
    return type("Own", (kind,), dict.fromkeys(names, refuse))


@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_a_sequence_of_the_scripts_is_read_past_its_code(kind):
    value = own(kind)(range(6))
    assert is_sequence(value)
    assert not is_mapping(value)
    assert length_of(value) == 6
    assert first_of(value, 2) == [0, 1]
    assert ends_of(value, 2) == [0, 1, 4, 5]
    assert ends_of(own(kind)([7]), 2) == [7, 7]


def test_a_dict_of_the_scripts_is_read_past_its_code():
    value = own(dict)(a=1, b=2, c=3)
    assert is_mapping(value)
    assert values_of(value, 2) == [1, 2]


def test_what_only_says_that_it_is_a_list_is_none():
    class Proxy:
        __class__ = list

    assert isinstance(Proxy(), list)
    assert not is_sequence(Proxy())


def test_attributes_are_read_past_the_code_of_a_class():
    class Own:
        kind = 3

        def __init__(self):
            self.size = 2

        def __getattribute__(self, name):
            raise AssertionError(name)

        @property
        def computed(self):
            raise AssertionError

    class Slots:
        __slots__ = ("size",)

        def __getattr__(self, name):
            raise AssertionError(name)

    assert fields_of(Own()) == {"size": 2}
    assert (held_by(Own(), "size"), held_by(Own(), "kind"), held_by(Own(), "other")) == (2, 3, None)
    assert isinstance(held_by(Own(), "computed"), property)
    assert fields_of(Slots()) == {}
