from __future__ import annotations

import pytest

from perfdoctor.facts.script.diagonal_matrices import DiagonalMatrixFacts, DiagonalMatrixLine
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.diagonal_matrices import diagonal_matrices as tip
from tests.support.facts import step

STEP = step(forward=5, backward=4, optimizer=1)


def working(number=30, share=0.3, text="chosen = MultivariateNormal(mean, cov)", distribution=True):
    at = Location("train.py", number, "forward", text)
    return DiagonalMatrixLine(at, share, ("linalg_cholesky", "isclose"), 1024, 12, distribution)


LINES = (working(),)


def diagonals(likely=0.3, lines=LINES):
    return DiagonalMatrixFacts(Estimate(likely / 2, likely, min(1.0, likely * 1.5)), lines, 4)


def test_says_what_the_matrices_cost_and_names_the_distribution_to_take():
    advice = tip(STEP, diagonals(lines=(working(), working(31, 0.01))))
    spent = "30% of each step (3.0 ms), backward included, is work on whole matrices"
    assert advice.because == (
        f"{spent} that are zero off their diagonal, in 4 sampled steps",
        "line 30 takes the most, 30% of the step: `chosen = MultivariateNormal(mean, cov)`",
        "there, only the diagonal of 1,024 matrices of 12 × 12 is not zero (linalg_cholesky, isclose)",
    )
    assert [at.line for at in advice.at] == [30, 31]
    assert advice.code.startswith("Independent(Normal(mean, std), 1)")
    share = advice.change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.09, 0.27, 0.45))


def test_code_by_hand_is_told_the_operations():
    assert "values / diagonal" in tip(STEP, diagonals(lines=(working(distribution=False),))).code


def test_fires_at_the_threshold_and_is_silent_just_under_it_or_without_a_line():
    assert tip(STEP, diagonals(0.0801)) is not None
    assert tip(STEP, diagonals(0.0799)) is None
    assert tip(STEP, diagonals(lines=())) is None
