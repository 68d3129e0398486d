from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.zero_weight_losses import ZeroWeightLossFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.zero_weight_losses import zero_weight_losses as tip
from tests.support.facts import step

STEP = step(forward=4, backward=5, optimizer=1)  # ms
LINE = Location("train.py", 12, "forward", "extra = decoder(features)")
FOUND = ZeroWeightLossFacts("Decoder", 0.2, 0.5, Estimate(0.6, 0.7, 0.8), 3, 6, (LINE,))
ALWAYS = replace(FOUND, part=Estimate(0.98, 0.99, 1.0))


def test_says_what_gets_zeros_what_it_takes_and_in_which_part_of_the_run():
    advice = tip(STEP, FOUND)
    assert advice.because == (
        "only zeros come back to what Decoder returns, in the last 3 of 6 sampled steps",
        "it takes about 45% of such a step (4.5 ms), backward included",
        "so it is in 60% to 80% of the run",
        "if it is meant to learn, it does not: look at what lies between it and the loss (dead units?)",
    )
    assert advice.at == (LINE,)
    assert tip(STEP, ALWAYS).because[2] == "so it is in the whole run"


def test_forward_goes_and_as_much_of_backward_for_that_part_of_the_run():
    share = tip(STEP, FOUND).change.step
    assert share.likely == pytest.approx(0.7 * (0.2 + 0.5 * 0.5))
    assert share.low == pytest.approx(0.6 * (0.2 + 0.6 * 0.25))
    assert share.high == pytest.approx(0.8 * (0.2 + 1.3 * 0.25))


def test_no_more_of_backward_goes_than_there_is():
    assert tip(STEP, replace(ALWAYS, of_called=0.9)).change.step.high == pytest.approx(0.2 + 0.5)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(replace(FOUND, share=0.02, of_called=0.05), id="it-takes-next-to-nothing"),
        pytest.param(replace(FOUND, part=Estimate(0.0, 0.05, 0.1)), id="only-at-the-end-of-the-run"),
        pytest.param(replace(ALWAYS, of_called=1.0), id="nothing-is-trained-at-all"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None
