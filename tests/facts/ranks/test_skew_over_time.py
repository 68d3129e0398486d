from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.ranks.skew_over_time import median_wait, waits_over_time
from tests.facts.ranks.test_skew import matched
from tests.support import ranks


def test_skew_over_time_is_the_share_that_the_median_rank_waits():
    shares = median_wait(matched(ranks.team({}, {"data_wait": 5.0}, {})))
    assert len(shares) == ranks.STEPS - 2
    assert shares == pytest.approx([5 / 17] * len(shares), rel=1e-2)


def test_of_two_ranks_it_is_the_share_of_the_one_that_waits():
    shares = median_wait(matched(ranks.team({}, {"data_wait": 5.0})))
    assert shares == pytest.approx([5 / 17] * len(shares), rel=1e-2)


def test_each_part_of_the_run_tells_who_waits_and_who_is_waited_for():
    found = matched(ranks.team({}, {"data_wait": 5.0}, {}))
    told = waits_over_time(found)
    assert told.ranks == (0, 1, 2)
    assert len(told.edges_s) == len(told.waited[0]) + 1
    step_s = (found.end_ns[-1] - found.end_ns[0]) / 1e9 / (found.count - 1)
    assert told.waited[0] == pytest.approx([0.005 / step_s] * len(told.waited[0]), rel=1e-2)
    assert max(told.waited[1]) == pytest.approx(0, abs=1e-6)
    assert told.awaited[1] == pytest.approx(told.waited[0], rel=1e-2)
    assert max(told.awaited[0]) == 0


def test_one_exchange_has_no_parts():
    found = matched(ranks.team({}, {"data_wait": 5.0}))
    one = replace(
        found, blocked_s=found.blocked_s[:, :1], moving_s=found.moving_s[:1], end_ns=found.end_ns[:1]
    )
    assert (median_wait(one), waits_over_time(one)) == ((), None)
