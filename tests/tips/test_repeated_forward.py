from __future__ import annotations

import pytest

from perfdoctor.tips.repeated_forward import repeated_forward as tip
from tests.support.facts import run, step
from tests.support.script_facts import repeats

TWICE = step(forward=4, backward=4, optimizer=2)


def test_names_both_lines():
    advice = tip(run(), TWICE, repeats(0.2))
    assert advice.because == (
        "Net is called twice with the same input, on lines 41 and 43 (in 100% of 6 sampled steps)",
        "the second pass takes 20.0% of the step and repeats the same result",
    )
    assert [at.line for at in advice.at] == [43, 41]


def test_of_a_pass_that_differs_by_chance_backward_stays():
    advice = tip(run(), step(forward=3, backward=6), repeats(0.15, recording=True, by_chance=True))
    assert advice.because[1] == (
        "the second pass takes 15.0% of the step and differs by chance only, as by dropout; "
        "backward does not use its result"
    )
    assert advice.change.step.high == pytest.approx(0.15)
    share = tip(run(device="Tesla V100"), TWICE, repeats(0.2, recording=True, by_chance=True)).change.step
    assert share.high == pytest.approx(0.8 / 4)  # of two forwards and one backward


def test_one_line_in_a_loop_is_named_once():
    advice = tip(run(), TWICE, repeats(0.2, first=41, again=41))
    assert "on this line" in advice.because[0]
    assert len(advice.at) == 1


def test_takes_the_pass_and_at_best_its_backward():
    share = tip(run(), TWICE, repeats(0.2)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.18, 0.2, 0.2))


def test_backward_goes_with_it_as_far_as_one_pass_does_not_explain_it():
    twice = tip(run(), step(forward=3, backward=6, optimizer=1), repeats(0.15, recording=True))
    assert twice.change.step.high == pytest.approx(0.15 + 0.3)
    for_metrics = tip(run(), step(forward=4, backward=4, optimizer=2), repeats(0.2, recording=True))
    assert for_metrics.change.step.high == pytest.approx(0.2)


def test_on_a_device_the_pass_is_a_part_of_the_devices_work():
    share = tip(run(device="Tesla V100"), TWICE, repeats(0.2)).change.step  # half of all forward passes
    assert share.likely == pytest.approx(0.8 / 2 / 3)
    assert share.low < share.likely < share.high


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(repeats(0.0), id="nothing-twice"),
        pytest.param(repeats(0.029), id="just-under-the-threshold"),
        pytest.param(repeats(0.2, seen=0.49), id="in-some-steps-only"),
    ],
)
def test_is_silent(found):
    assert tip(run(), TWICE, found) is None
