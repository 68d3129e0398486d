from __future__ import annotations

import pytest

from perfdoctor.facts.script.separate_derivatives import SeparateDerivativesFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.separate_derivatives import separate_derivatives as tip
from tests.support.facts import gain, step

AT = (Location("train.py", 63), Location("train.py", 64))
STEP = step(forward=2, backward=8)


def derivatives(share=0.25, again=0.125, through=True):
    return SeparateDerivativesFacts(7, 4, share, again, through, AT)


def test_says_how_many_and_what_they_take():
    advice = tip(STEP, derivatives())
    assert advice.because == (
        "7 calls of autograd.grad in each step; 4 repeat the way of another, from the same output",
        "what they repeat takes 10% of the step, and going back through it 15%",
    )
    assert advice.at == AT
    assert advice.same_result


def test_the_loss_goes_back_through_so_much_less_as_is_computed_less():
    found = gain(tip(STEP, derivatives()))
    assert found.low == pytest.approx(1 / (1 - 0.25 * 0.7))
    assert found.likely == pytest.approx(1 / (1 - 0.25))
    assert found.high == pytest.approx(1 / (1 - 0.25 * 1.3))


def test_without_a_graph_only_the_calls_go():
    assert gain(tip(STEP, derivatives(through=False))).likely == pytest.approx(1 / (1 - 0.1))


def test_is_silent_where_little_is_repeated():
    assert tip(STEP, derivatives(0.05, 0.01)) is None
