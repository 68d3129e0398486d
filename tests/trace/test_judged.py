from __future__ import annotations

import pytest

from perfdoctor.trace.judged import judged


@pytest.mark.parametrize(
    ("spans_us", "begun", "expected"),
    [
        ([], [], []),
        ([9, 5, 5], [3, 3, 3], [1, 2]),
        ([7, 5, 5], [3, 3, 3], [0, 1, 2]),
        ([9, 5], [3, 3], [0, 1]),
        ([5, 5, 1], [3, 3, 0], [0, 1]),
        ([9, 5, 5, 1], [3, 3, 3, 0], [1, 2]),
        ([5, 5, 1], [3, 0, 0], [0, 1, 2]),
        ([5], [0], [0]),
    ],
)
def test_a_first_step_that_warms_up_and_a_last_without_work_are_not_judged(spans_us, begun, expected):
    assert list(judged(spans_us, begun)) == expected
