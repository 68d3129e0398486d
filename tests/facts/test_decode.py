from __future__ import annotations

import math

import pytest

from perfdoctor.facts.decode import as_count, location, number, positive, processes
from perfdoctor.model.measured import Location


@pytest.mark.parametrize("value", [None, "7", math.nan, math.inf, True, [], {}])
def test_what_is_no_number_is_zero_or_none(value):
    assert number(value) == 0.0
    assert positive(value) is None
    assert as_count(value) is None


def test_numbers_are_kept():
    assert (number(-2), positive(-2), positive(0.5), as_count(3), as_count(-3)) == (-2.0, None, 0.5, 3, None)


@pytest.mark.parametrize("procs", [None, 2.5, "x", {"pid": 1}, [3, None], []])
def test_a_damaged_sample_saw_no_process(procs):
    assert processes({"procs": procs}) == []
    assert processes({"procs": [3, {"pid": 1}]}) == processes({"procs": ({"pid": 1},)}) == [{"pid": 1}]


def test_a_location_needs_a_file_and_a_line():
    assert location({"file": "a.py", "line": 3, "function": "f"}) == Location("a.py", 3, "f")
    assert location({"file": "a.py", "line": 3}) == Location("a.py", 3)
    assert location({"file": "a.py"}) is None
    assert location(None) is None
