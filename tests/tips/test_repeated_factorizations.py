from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.repeated_factorizations import FactorizationLine, RepeatedFactorizationFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.repeated_factorizations import repeated_factorizations as tip
from tests.support.facts import step

STEP = step(forward=5, backward=4, optimizer=1)


def line(number=30, share=0.3, function="linalg_solve", matrices=5, times=10):
    at = Location("train.py", number, "forward", "moved = solve(matrix, loads)")
    return FactorizationLine(at, share, function, matrices, 512, times)


LINES = (line(),)


def repeated(likely=0.3, copies=0.9, lines=LINES):
    return RepeatedFactorizationFacts(Estimate(likely / 2, likely, likely * 1.5), copies, lines, 4)


def test_says_what_the_copies_cost_and_how_many_there_are():
    advice = tip(STEP, repeated(lines=(line(), line(31, 0.01))))
    assert advice.because == (
        "30% of each step (3.0 ms), backward included, factorises copies of matrices, in 4 sampled steps",
        "line 30 takes the most, 30% of the step: `moved = solve(matrix, loads)`",
        "there, linalg_solve factorises 5 matrices of 512 × 512 10 times each",
    )
    assert [at.line for at in advice.at] == [30, 31]
    share = advice.change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.081, 0.243, 0.405))


def test_the_code_fits_the_function():
    assert "sides.mT" in tip(STEP, repeated()).code
    one = line(function="linalg_inv", matrices=1)
    advice = tip(STEP, repeated(lines=(one,)))
    assert "inv(matrix).expand" in advice.code
    assert advice.because[2] == "there, linalg_inv factorises one matrix of 512 × 512 10 times"


def test_a_matrix_that_comes_again_is_factorised_once():
    again = replace(line(matrices=1, times=1), again=6)
    advice = tip(STEP, repeated(copies=1.0, lines=(again,)))
    assert advice.because[0].endswith("backward included, factorises matrices again, in 4 sampled steps")
    assert advice.because[2] == (
        "there, linalg_solve is given a matrix of 512 × 512 that it was given before, in 6 calls of the step"
    )
    assert "lu_factor(matrix)  # once" in advice.code
    of_inverse = replace(again, function="linalg_inv")
    assert tip(STEP, repeated(copies=1.0, lines=(of_inverse,))).code.startswith("kept = ")


def test_fires_at_the_threshold_and_is_silent_just_under_it_or_without_a_line():
    assert tip(STEP, repeated(0.101, 0.5)) is not None
    assert tip(STEP, repeated(0.099, 0.5)) is None
    assert tip(STEP, repeated(lines=())) is None
