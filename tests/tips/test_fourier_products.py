from __future__ import annotations

import pytest

from perfdoctor.facts.script.fourier_products import FourierProductFacts, FourierProductLine
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.fourier_products import fourier_products as tip
from tests.support.facts import step

STEP = step(forward=5, backward=4, optimizer=1)


def multiplying(number=30, share=0.3, hop=256):
    at = Location("train.py", number, "forward", "x = conv1d(x, kernels)")
    return FourierProductLine(at, share, "conv1d", 1_024, 1_026, hop)


LINES = (multiplying(),)


def transforms(likely=0.3, left=0.025, lines=LINES):
    return FourierProductFacts(Estimate(likely / 2, likely, min(1.0, likely * 1.5)), left, lines, 4)


def test_says_what_the_transforms_cost_and_what_a_fast_one_leaves():
    advice = tip(STEP, transforms(lines=(multiplying(), multiplying(31, 0.01))))
    spent = "30% of each step (3.0 ms), backward included, is Fourier transforms by products"
    assert advice.because == (
        f"{spent} with dense kernels, in 4 sampled steps",
        "line 30 takes the most, 30% of the step: `x = conv1d(x, kernels)`",
        "the 1,026 fixed rows of 1,024 that its conv1d multiplies by are sinusoids of evenly spaced frequencies",
    )
    assert [at.line for at in advice.at] == [30, 31]
    assert advice.code.startswith("spectrum = torch.stft(wave, 1024, 256,")
    share = advice.change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.1125, 0.2475, 0.405))


def test_a_product_of_matrices_is_told_the_transform_of_frames():
    assert "torch.fft.rfft" in tip(STEP, transforms(lines=(multiplying(hop=0),))).code


def test_fires_at_the_threshold_and_is_silent_just_under_it_or_without_a_line():
    assert tip(STEP, transforms(0.0607)) is not None
    assert tip(STEP, transforms(0.0605)) is None
    assert tip(STEP, transforms(lines=())) is None


def test_short_windows_for_which_products_are_as_quick_are_not_named():
    assert tip(STEP, transforms(0.9, left=5 * 6 / (2 * 66))) is None
