from __future__ import annotations

import pytest

from perfdoctor.facts.host.distribution_checks import DistributionCheckFacts
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.validated_distributions import validated_distributions as tip
from tests.support.facts import gain, line, run, step

STEP = step(forward=4, backward=2, other=4)
CPU, GPU = run(), run(device="A100")


def checks(*lines, waited=None):
    return DistributionCheckFacts(lines, waited)


def test_names_the_line_that_checks_most_and_promises_what_checks_take():
    advice = tip(CPU, STEP, checks(line(0.2, 12, text="policy = Categorical(probs)"), line(0.1, 14)))
    assert advice is not None
    assert advice.because == (
        "30% of each step (3.00 ms) checks what distributions are given",
        "what line 12 gives them takes 20% of the step: `policy = Categorical(probs)`",
        "what line 14 gives them takes 10% of the step: `work()`",
    )
    assert [at.line for at in advice.at] == [12, 14]
    assert gain(advice).likely == pytest.approx(1 / 0.7)
    assert gain(advice).low < gain(advice).likely < gain(advice).high
    assert advice.same_result
    assert advice.bottleneck is None


@pytest.mark.parametrize(
    ("run", "found"),
    [
        pytest.param(CPU, checks(line(0.049)), id="just-under-the-threshold"),
        pytest.param(CPU, checks(line(0.5, samples=9)), id="seen-too-seldom"),
        pytest.param(GPU, checks(line(0.5), waited=0.04), id="a-device-that-hardly-waits"),
    ],
)
def test_is_silent(run, found):
    assert tip(run, STEP, found) is None


@pytest.mark.parametrize(
    ("run", "found"),
    [
        pytest.param(CPU, checks(line(0.051)), id="just-above-the-threshold"),
        pytest.param(CPU, checks(line(0.5, samples=10)), id="seen-often-enough"),
        pytest.param(GPU, checks(line(0.5), waited=0.06), id="a-device-that-waits"),
    ],
)
def test_fires(run, found):
    assert tip(run, STEP, found) is not None


def test_of_a_devices_time_no_more_goes_than_it_waits_for_its_host():
    advice = tip(GPU, STEP, checks(line(0.3), waited=0.2))
    assert advice.bottleneck is Bottleneck.HOST
    assert gain(advice).low == pytest.approx(1.0)
    assert gain(advice).likely == gain(advice).high == pytest.approx(1 / 0.8)


def test_the_gain_stays_bounded_however_much_is_checked():
    assert gain(tip(CPU, STEP, checks(line(1.0)))).high <= 100
