from __future__ import annotations

import pytest

from perfdoctor.model.ranks import rank_list


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([3], "rank 3"),
        ([7, 2, 3, 3, 4, 0], "ranks 0, 2–4, 7"),
        (range(0, 40, 2), "ranks 0, 2, 4, 6, 8, 10 and 14 more"),
    ],
)
def test_ranks_are_named_in_runs_and_many_are_counted(ranks, told):
    assert rank_list(ranks) == told
