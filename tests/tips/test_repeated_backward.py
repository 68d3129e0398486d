from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.repeated_backward import RepeatedBackwardFacts, RepeatedPass
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


TWICE = replace(STEP, backwards_per_step=2.0)
SAME = RepeatedPass(0.02, 0.03, False, True, 3, AT)


def of_one_loss(step=TWICE, batches=1.0, **changed):
    return tip(step, RepeatedBackwardFacts(0.0, 0, None, batches, replace(SAME, **changed)))


def test_a_pass_of_the_same_loss_goes_with_its_time():
    advice = of_one_loss()
    assert advice.because[0] == (
        "a call of torch.autograd.grad takes 24% of the step, and computes only what another pass computes too"
    )
    assert advice.at == (AT,)
    assert "p.grad.norm()" in advice.code
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.6 * 0.4))


def test_a_pass_of_every_tenth_step_is_a_tenth_of_it():
    rare = of_one_loss(replace(TWICE, backwards_per_step=1.5), seconds=0.03)
    assert gain(rare).likely == pytest.approx(1 / (1 - 0.6 / 3))
    assert of_one_loss(replace(TWICE, backwards_per_step=1.1)) is None


def test_where_gradients_accumulate_one_pass_goes():
    assert gain(of_one_loss(replace(TWICE, backwards_per_step=4.0), batches=2.0, seconds=0.03)).likely == (
        pytest.approx(1 / (1 - 0.6 / 4))
    )


@pytest.mark.parametrize(
    ("adds", "other_adds", "code"),
    [
        pytest.param(True, True, "loss.backward()  # once\n", id="backward-twice"),
        pytest.param(False, True, "loss.backward()  # once; no torch.autograd.grad\n", id="a-grad-as-well"),
        pytest.param(False, False, "gradients = torch.autograd.grad(", id="grad-twice"),
    ],
)
def test_the_cure_is_that_of_the_calls(adds, other_adds, code):
    assert of_one_loss(adds=adds, other_adds=other_adds).code.startswith(code)


def test_several_losses_are_told_of_where_a_pass_of_one_takes_little():
    both = replace(HALF, same=replace(SAME, seconds=1e-6))
    assert tip(STEP, both).because == tip(STEP, HALF).because
