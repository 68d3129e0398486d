from __future__ import annotations

import pytest

from perfdoctor.tips.zeroed_gradients import zeroed_gradients as tip
from tests.support.facts import gain, run, step
from tests.support.host_facts import zeroing

STEP = step(forward=5, backward=5)


def test_takes_out_what_was_measured_and_at_best_what_backward_adds():
    advice = tip(run(), STEP, zeroing(0.5))
    assert advice is not None
    assert advice.because[0] == "setting gradients to zero takes 0.50 ms per step, 5.0% of the step"
    assert advice.at[0].line == 15
    assert advice.tweak == "--zero-grad-none"
    assert advice.code == "opt.zero_grad(set_to_none=True)"
    assert gain(advice).likely == pytest.approx(1 / 0.9125)
    assert gain(advice).high == pytest.approx(1 / 0.80)


def test_what_backward_adds_is_bounded_by_backward():
    advice = tip(run(), step(forward=9.9, backward=0.1), zeroing(0.5))
    assert gain(advice).high == pytest.approx(1 / (1 - 0.055))


def test_on_a_device_the_hosts_time_may_be_hidden():
    assert gain(tip(run(device="Tesla V100"), STEP, zeroing(0.5))).low == pytest.approx(1.0)


def test_fires_just_above_the_threshold_and_is_silent_just_under_it():
    assert tip(run(), STEP, zeroing(0.21)) is not None
    assert tip(run(), STEP, zeroing(0.19)) is None
