from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.tensor_loops import TensorLoopFacts
from perfdoctor.model.change import NOTHING
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips._python_loops import shares
from perfdoctor.tips.tensor_loops import tensor_loops as tip
from tests.support.facts import gain, line, step

STEP = step(forward=5, backward=4, other=1)
LOOPS = (
    "40% of each step (4.0 ms) runs small tensor operations in a loop, "
    "and about 20% their counterparts in backward"
)


def nests(*lines, waited=None):
    return TensorLoopFacts(lines, sum(line.share for line in lines), waited)


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


def test_what_backward_takes_beyond_twice_the_rest_of_forward_is_theirs():
    share, behind = shares(nests(line(0.2)), step(forward=3, backward=5, other=2))
    assert share == pytest.approx(0.2)
    assert (behind.low, behind.likely, behind.high) == pytest.approx((0.2, 0.3, 0.4))
    assert shares(nests(line(0.2)), replace(STEP, mean_s=0.0)) == (pytest.approx(0.2), NOTHING)


def test_the_gain_stays_below_all_of_the_step():
    assert gain(tip(step(backward=9, other=1), nests(line(1.0, 62)))).high < 100


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(nests(line(0.079)), id="just-under-the-threshold"),
        pytest.param(nests(line(0.5, samples=4)), id="seen-too-seldom"),
        pytest.param(nests(line(0.5), waited=0.05), id="a-device-that-hardly-waits"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None


def test_fires_just_above_the_threshold():
    assert tip(STEP, nests(line(0.081))) is not None


def test_where_a_device_waits_backward_is_launched_as_forward_is_and_no_more_goes_than_it_waits():
    detector = step(forward=17.6, backward=14.3, optimizer=0.6, other=1.3)
    advice = tip(detector, nests(line(0.393, 44), waited=0.68))
    assert advice.bottleneck is Bottleneck.HOST
    assert advice.because[0].endswith("and about 32% their counterparts in backward")
    assert advice.because[2] == "the device waits for its host 68% of the time"
    assert gain(advice).likely == pytest.approx(2.79, abs=0.05)
    assert gain(advice).high == pytest.approx(1 / (1 - 0.68))
    assert gain(tip(detector, nests(line(0.393, 44), waited=0.2))).likely == pytest.approx(1 / (1 - 0.2))
