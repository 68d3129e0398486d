from __future__ import annotations

import pytest

from perfdoctor.facts.script.module_calls import RepeatedCallFacts
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
    assert "on line 41 (" in advice.because[0]
    assert len(advice.at) == 1


DECODER = step(forward=3, backward=6, optimizer=1)
PROJECTED = {"first": 65, "again": 65, "module": "MultiheadAttention", "times": 29, "projections": True}


def together(*found):
    """Several repeats of one run, costliest first."""
    return RepeatedCallFacts(tuple(repeat for one in found for repeat in one.repeats), 6)


def test_says_how_often():
    advice = tip(run(), TWICE, repeats(0.2, first=66, again=66, module="Linear", times=29))
    assert advice.because == (
        "Linear is called 29 times with the same input, on line 66 (in 100% of 6 sampled steps)",
        "all passes but the first take 20.0% of the step and repeat the same result",
    )


def test_projections_of_attention_are_named_with_their_own_cure():
    advice = tip(run(), DECODER, repeats(0.1, walked=True, **PROJECTED))
    assert advice.because == (
        "MultiheadAttention projects the same keys and values 29 times, on line 65 (in 100% of 6 sampled steps)",
        "all projections but the first take about 10.0% of the step; backward goes through all of them",
    )
    assert "scaled_dot_product_attention(q, k, v)" in advice.code
    assert "module(x)" not in advice.code


def test_where_both_are_in_the_loss_backward_repeats_as_well():
    share = tip(run(), DECODER, repeats(0.1, walked=True)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.18, 0.3, 0.3))
    advice = tip(run(), DECODER, repeats(0.1, walked=True))
    assert advice.because[1].endswith("repeats the same result; backward goes through both")


def test_no_more_of_backward_goes_than_there_is():
    share = tip(run(), step(forward=5, backward=1, optimizer=4), repeats(0.3, walked=True)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.4, 0.4, 0.4))


def test_of_projections_the_low_end_takes_half():
    share = tip(run(), DECODER, repeats(0.1, walked=True, **PROJECTED)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.09, 0.3, 0.3))


def test_what_one_rewrite_cures_is_added_up():
    linear = repeats(0.06, first=66, again=66, module="Linear", times=29, walked=True)
    found = together(repeats(0.1, walked=True, **PROJECTED), linear, repeats(0.02))
    advice = tip(run(), DECODER, found)
    assert advice.because == (
        "MultiheadAttention projects the same keys and values 29 times, on line 65 (in 100% of 6 sampled steps)",
        "Linear is called 29 times with the same input, on line 66",
        "Net is called twice with the same input, on lines 41 and 43",
        "all but the first of each take 18.0% of the step; backward goes through all of them",
    )
    share = advice.change.step
    assert (share.low, share.likely) == pytest.approx((0.09 + 0.108 + 0.018, 0.18 + 0.32))
    assert [at.line for at in advice.at] == [65, 66, 43]
    assert "module(x)" in advice.code
    assert "project(nodes)" in advice.code


def test_more_than_three_are_counted():
    each = [repeats(0.02, first=line, again=line) for line in range(50, 55)]
    because = tip(run(), TWICE, together(*each)).because
    assert because[3] == "all but the first of each take 10.0% of the step (2 more are like these)"
    assert len(because) == 4
    assert "(1 more is like these)" in tip(run(), TWICE, together(*each[:4])).because[3]


def test_one_that_differs_by_chance_stands_alone():
    chance = repeats(0.1, recording=True, by_chance=True)
    share = tip(run(), DECODER, together(chance, repeats(0.05))).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.09, 0.1, 0.1))
    others = [repeats(0.06, first=line, again=line) for line in (50, 51)]
    assert tip(run(), DECODER, together(chance, *others)).change.step.likely == pytest.approx(0.12)


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
