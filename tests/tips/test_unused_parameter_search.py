from __future__ import annotations

import pytest

from perfdoctor.tips.unused_parameter_search import unused_parameter_search as tip
from tests.support.facts import among, exchange, step
from tests.support.script_facts import parallel

STEP = step(forward=4, backward=5, optimizer=1)


def test_names_the_cost_and_the_constructor():
    advice = tip(STEP, parallel(find_unused=True, search_s=0.0005))
    assert advice.because == (
        "find_unused_parameters=True, but every parameter had a gradient in all counted passes",
        "the search takes 0.50 ms per pass, 13.5% of the step with its part of backward",
    )
    assert [at.line for at in advice.at] == [22]
    assert advice.tweak == "--ddp-static-graph"


def test_the_search_goes_and_what_it_costs_in_backward():
    share = tip(STEP, parallel(find_unused=True, search_s=0.0005)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.054, 0.135, 0.2025))


def test_so_does_the_all_reduce_that_goes_with_it_where_exchanges_were_timed():
    timed = parallel(
        find_unused=True,
        search_s=0.0002,
        own=among(moving=1.0),
        gradient_sync=exchange(buckets=2.0, bytes=1000),
    )
    advice = tip(STEP, timed)
    assert advice.because[-1] == "the extra small all-reduce after each backward takes about 5.0% of the step"
    assert advice.change.step.likely == pytest.approx(0.02 * 2.7 + 0.05, rel=0.01)
    assert advice.change.step.low == pytest.approx(0.02 * 2.7 * 0.4)


def test_of_large_buckets_only_startup_share_counts():
    timed = parallel(
        find_unused=True, search_s=0.001, own=among(moving=1.0), gradient_sync=exchange(bytes=100_000_000)
    )
    assert tip(STEP, timed).because[-1].endswith("about 0.1% of the step")


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(parallel(find_unused=False, search_s=0.0005), id="no-search"),
        pytest.param(parallel(find_unused=True, search_s=0.0005, unused=2), id="some-are-unused"),
        pytest.param(parallel(find_unused=True, search_s=0.0005, unused=None), id="not-counted"),
        pytest.param(parallel(find_unused=True, search_s=0.000074), id="just-under-the-threshold"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None
