from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.repeated_backward import RepeatedBackwardFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.repeated_backward import repeated_backward as tip
from tests.support.facts import gain, step

AT = Location("train.py", 63)
STEP = replace(step(forward=2, backward=6, other=2), backwards_per_step=4.0)
HALF = RepeatedBackwardFacts(0.5, 3, AT)


def test_says_how_many_and_what_they_have_in_common():
    advice = tip(STEP, HALF)
    assert advice.because == (
        "4 backwards in each step take 60% of it",
        "each backward repeats 50% of the graph that the one before went through",
    )
    assert advice.at == (AT,)
    assert advice.same_result


def test_all_but_one_of_the_common_parts_go():
    found = gain(tip(STEP, HALF))
    assert found.low == pytest.approx(1 / (1 - 0.6 * 0.75 * 0.5 * 0.5))
    assert found.likely == pytest.approx(1 / (1 - 0.6 * 0.75 * 0.5))
    assert found.high == pytest.approx(1 / (1 - 0.6 * 0.75))


@pytest.mark.parametrize(
    ("passes", "shared"),
    [
        pytest.param(1.0, 0.9, id="one-backward-a-step"),
        pytest.param(4.0, 0.1, id="little-in-common"),
    ],
)
def test_is_silent(passes, shared):
    assert tip(replace(STEP, backwards_per_step=passes), replace(HALF, shared=shared)) is None


def test_where_batches_accumulate_one_backward_of_each_stays():
    accumulated = replace(HALF, batches=2.0)
    assert gain(tip(STEP, accumulated)).high == pytest.approx(1 / (1 - 0.6 * 0.5))
    assert tip(STEP, replace(HALF, batches=4.0)) is None  # one each: nothing goes
