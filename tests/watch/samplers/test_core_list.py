from __future__ import annotations

import pytest

from perfdoctor.watch.samplers.core_list import core_list


@pytest.mark.parametrize(
    ("cores", "listed"), [((), ""), ((3,), "3"), ((0, 1), "0-1"), ((8, 2, 0, 1, 10, 9), "0-2,8-10")]
)
def test_cores_are_listed_as_by_the_kernel(cores, listed):
    assert core_list(cores) == listed
