from __future__ import annotations

import pytest

from perfdoctor.facts.host.tensor_loops import TensorLoopFacts
from perfdoctor.tips.tensor_loops import tensor_loops as tip
from tests.support.facts import gain, line, step

STEP = step(forward=5, backward=4, other=1)
LOOPS = (
    "40% of each step (4.0 ms) runs small tensor operations in a loop, "
    "and about 20% their counterparts in backward"
)


def nests(*lines):
    return TensorLoopFacts(lines, sum(line.share for line in lines))


def test_names_the_costliest_line_and_what_goes():
    advice = tip(STEP, nests(line(0.3, 62, text="d = torch.norm(x[i] - x[j])"), line(0.1, 63)))
    assert advice is not None
    assert advice.because == (
        LOOPS,
        "line 62 takes the most, 30% of the step: `d = torch.norm(x[i] - x[j])`",
    )
    assert [at.line for at in advice.at] == [62, 63]
    assert gain(advice).low == pytest.approx(1 / (1 - (0.4 + 0.1) * 0.5))
    assert gain(advice).likely == pytest.approx(1 / (1 - (0.4 + 0.2) * 0.9))


def test_the_gain_stays_below_all_of_the_step():
    assert gain(tip(step(backward=9, other=1), nests(line(1.0, 62)))).high < 100


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(nests(line(0.079)), id="just-under-the-threshold"),
        pytest.param(nests(line(0.5, samples=4)), id="seen-too-seldom"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None


def test_fires_just_above_the_threshold():
    assert tip(STEP, nests(line(0.081))) is not None
