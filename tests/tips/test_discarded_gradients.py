from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.discarded_gradients import DiscardedGradientFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.discarded_gradients import discarded_gradients as tip
from tests.support.facts import gain, run, step

STEP = step(forward=4, backward=6)
ENTRY = Location("train.py", 30, "main", "on_fake = criterion(netD(fake), zeros)")
BACKWARD = Location("train.py", 32, "main", "d_loss.backward()")
FOUND = DiscardedGradientFacts(16, 0.4, 0.7, 900_000, "fake", BACKWARD, ENTRY, False)


def test_names_where_the_tensor_enters_and_what_backward_does_in_vain():
    advice = tip(run(), STEP, FOUND)
    assert advice is not None
    assert advice.because == (
        "gradients of 900,000 parameters are cleared before an optimizer uses them",
        "70% of this backward serves these gradients alone",
        "that is 40% of all backward time, which is 60% of the step",
    )
    assert advice.at == (ENTRY, BACKWARD)
    assert advice.code.startswith("fake.detach()")
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.6 * 0.4))


def test_without_the_place_of_entry_the_backward_is_named():
    advice = tip(run(), STEP, replace(FOUND, entry=None, name=None))
    assert advice.at == (BACKWARD,)
    assert advice.code.startswith("tensor.detach()")


def test_on_a_device_the_least_that_it_brings_is_less():
    assert gain(tip(run(device="A100"), STEP, FOUND)).low < gain(tip(run(), STEP, FOUND)).low


def test_fires_at_the_threshold_and_is_silent_just_under_it():
    assert tip(run(), STEP, replace(FOUND, of_backward=0.0834)) is not None
    assert tip(run(), STEP, replace(FOUND, of_backward=0.0832)) is None


def test_is_silent_where_the_script_takes_the_gradients_itself():
    assert tip(run(), STEP, replace(FOUND, read=True)) is None


def test_a_backward_for_the_gradient_of_an_input_is_told_to_ask_for_no_more():
    asked = replace(FOUND, name="image", entry=None, asked=True)
    advice = tip(run(), STEP, asked)
    assert advice.at == (BACKWARD,)
    assert advice.code.startswith("(gradient,) = torch.autograd.grad(loss, image)")
    assert gain(advice).likely == pytest.approx(gain(tip(run(), STEP, FOUND)).likely)
    assert gain(advice).low < gain(tip(run(), STEP, FOUND)).low
