from __future__ import annotations

import pytest

from perfdoctor.tips.unused_parameter_search import unused_parameter_search as tip
from tests.builtfacts import parallel
from tests.facts import step

STEP = step(forward=4, backward=5, optimizer=1)


def test_names_the_cost_and_the_constructor():
    advice = tip(STEP, parallel(find_unused=True, search_s=0.0005))
    assert advice.because == (
        "find_unused_parameters=True, and every parameter had a gradient in all passes that were counted",
        "the search takes 0.50 ms a pass, 5.0% of the step",
    )
    assert [at.line for at in advice.at] == [22]
    assert advice.tweak == "--ddp-static-graph"


def test_the_search_goes_and_at_best_what_is_exchanged_with_it():
    share = tip(STEP, parallel(find_unused=True, search_s=0.0005)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.035, 0.045, 0.1))


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(parallel(find_unused=False, search_s=0.0005), id="no-search"),
        pytest.param(parallel(find_unused=True, search_s=0.0005, unused=2), id="some-are-unused"),
        pytest.param(parallel(find_unused=True, search_s=0.0005, unused=None), id="not-counted"),
        pytest.param(parallel(find_unused=True, search_s=0.000099), id="just-under-the-threshold"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None
