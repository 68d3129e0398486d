from __future__ import annotations

import pytest

from perfdoctor.facts.script.zero_products import ZeroProductFacts, ZeroProductLine
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.products_with_zeros import products_with_zeros as tip
from tests.support.facts import step

STEP = step(forward=5, backward=4, optimizer=1)


def multiplying(number=30, share=0.3, nonzero=1 / 512, one_hot=True, text="picked = hot @ table"):
    at = Location("train.py", number, "forward", text)
    return ZeroProductLine(at, share, 2048, 512, nonzero, one_hot)


LINES = (multiplying(),)


def products(likely=0.3, lines=LINES):
    return ZeroProductFacts(Estimate(likely / 2, likely, min(1.0, likely * 1.5)), lines, 4)


def test_says_what_is_multiplied_by_which_line_and_how_empty_it_is():
    advice = tip(STEP, products(lines=(multiplying(), multiplying(31, 0.01))))
    assert advice.because == (
        "30% of each step (3.0 ms), backward included, multiplies by one-hot matrices, in 4 sampled steps",
        "line 30 takes the most, 30% of the step: `picked = hot @ table`",
        "one in 512 of its 2,048 × 512 elements is not zero",
    )
    assert [at.line for at in advice.at] == [30, 31]
    assert "table[index]" in advice.code


def test_a_sparse_product_keeps_more_the_fuller_the_matrix_is():
    share = tip(STEP, products()).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.075, 0.294, 0.441))
    fuller = tip(STEP, products(lines=(multiplying(nonzero=0.04, one_hot=False),)))
    assert fuller.change.step.likely == pytest.approx(0.3 * 0.8)
    assert "to_sparse_csr" in fuller.code
    assert "matrices of zeros" in fuller.because[0]


def test_a_line_without_its_text_is_still_named():
    assert tip(STEP, products(lines=(multiplying(text=None),))).because[1].endswith("30% of the step")


def test_fires_at_the_threshold_and_is_silent_just_under_it_or_without_a_line():
    assert tip(STEP, products(0.0801)) is not None
    assert tip(STEP, products(0.0799)) is None
    assert tip(STEP, products(lines=())) is None
