from __future__ import annotations

import pytest

from perfdoctor.wire.core_list import core_list, listed_cores


@pytest.mark.parametrize(
    ("cores", "listed"), [((), ""), ((3,), "3"), ((0, 1), "0-1"), ((8, 2, 0, 1, 10, 9), "0-2,8-10")]
)
def test_cores_are_listed_as_by_the_kernel(cores, listed):
    assert core_list(cores) == listed
    assert listed_cores(listed) == frozenset(cores)


@pytest.mark.parametrize("other", [None, "all", "4-", "-1", "0-3,", "0-9999999999"])
def test_what_is_no_list_names_no_core(other):
    assert listed_cores(other) == frozenset()
