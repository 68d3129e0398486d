from __future__ import annotations

import pytest

from perfdoctor.model import Bottleneck
from perfdoctor.tips.straggler_rank import straggler_rank as tip
from tests import facts


def test_names_the_rank_how_often_it_is_last_and_what_it_does_longer():
    advice = tip(facts.ranks(late=3, waiting=0.3, excess=12))
    assert advice.because == (
        "rank 3 is the last of 8 in 90 of 100 collectives",
        "the median other rank waits 30.0% of its time",
        "90% of all waiting is for rank 3",
        "it spends 12.00 ms a step longer than the median rank on compute",
    )
    assert advice.bottleneck is Bottleneck.COMPUTE


def test_the_gain_is_what_the_others_wait_for_it():
    gain = facts.gain(tip(facts.ranks(waiting=0.3)))
    assert gain.likely == pytest.approx(1 / (1 - 0.27))
    assert gain.high == pytest.approx(1 / 0.7)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"waiting": 0.03}, id="little-waiting"),
        pytest.param({"last": 20}, id="ranks-take-turns"),
        pytest.param({"caused": 0.3}, id="others-are-waited-for-more"),
        pytest.param({"matched": 2, "last": 2}, id="too-few-collectives"),
    ],
)
def test_is_silent(given):
    assert tip(facts.ranks(**given)) is None
