from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device.constant_copies import ConstantCopyFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import ConstantCopyLine, Location, Phase
from perfdoctor.tips.constants_copied_every_step import constants_copied_every_step as tip
from tests.support.facts import gain, step

AT = Location("train.py", 30, "forward", "basis = self.basis.to(x.device)")
STEP = step(host_to_device=40, forward=30, backward=30)
BASIS = ConstantCopyLine(AT, "pageable", 8.0, 120e6, 0.030)
EDGES = ConstantCopyLine(Location("train.py", 44, "main"), "pageable", 1.0, 40e6, 0.010)
SEEN = ConstantCopyFacts((BASIS, EDGES), 5, Estimate(0.2, 0.4, 0.4), by_window=True)
TIMED = replace(SEEN, share=Estimate(0.0, 0.3, 0.4), by_window=False)


def test_names_the_lines_with_their_bytes_and_times():
    advice = tip(STEP, SEEN)
    assert advice.because == (
        "40% of each step (40.0 ms) copies 160 MB to the device that the step before copied too, in 5 sampled steps",
        "8 times a step at line 30 (`basis = self.basis.to(x.device)`): 120 MB, 30.00 ms",
        "once a step at line 44: 40 MB, 10.00 ms",
    )
    assert [at.line for at in advice.at] == [30, 44]
    assert "register_buffer" in advice.code
    assert advice.phase is None


def test_all_of_their_time_goes():
    found = gain(tip(STEP, SEEN))
    assert (found.low, found.likely, found.high) == pytest.approx((1 / 0.8, 1 / 0.6, 1 / 0.6))


def test_says_where_the_timers_alone_tell():
    advice = tip(STEP, TIMED)
    assert "the range is wide" in advice.because[-1]
    assert advice.phase is Phase.HOST_TO_DEVICE
    assert gain(advice).low == 1.0


def test_fires_at_the_threshold_and_is_silent_just_under_it():
    assert tip(STEP, replace(SEEN, share=Estimate(0.015, 0.03, 0.03))) is not None
    assert tip(STEP, replace(SEEN, share=Estimate(0.015, 0.029, 0.029))) is None


def test_is_silent_where_the_wait_is_one_for_earlier_work():
    assert tip(STEP, replace(TIMED, share=Estimate(0.0, 0.01, 0.4))) is None
