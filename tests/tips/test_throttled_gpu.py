from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device.held_clock import HeldClockFacts
from perfdoctor.tips.throttled_gpu import throttled_gpu as tip
from tests.support.facts import gain

HOT = HeldClockFacts("Tesla V100", 60, 0.8, 0.1, 1200, 1600, 0.8, 88, 250)
CAPPED = replace(HOT, heat=0.0, power=0.9, clock_mhz=800)


def test_heat_is_told_with_the_clock_and_the_temperature():
    advice = tip(HOT)
    assert advice.because == (
        "Tesla V100: 1,200 MHz in the mean, of at most 1,600, in 60 samples in which it computed",
        "heat, or the hardware's protection, held it back in 80% of them; it reached 88 °C",
    )
    assert advice.at == ()


def test_expects_from_nothing_to_what_the_full_clock_brings_where_kernels_run():
    found = gain(tip(HOT))
    assert found.low == 1.0
    assert found.likely == pytest.approx(1 / (1 - 0.1))
    assert found.high == pytest.approx(1 / (1 - 0.2))  # a quarter of the clock, in 80% of the time


def test_a_low_power_limit_is_told_with_its_watts():
    assert tip(CAPPED).because[1] == "its power limit of 250 W held it back in 90% of them"
    unknown = replace(CAPPED, power_limit_w=None)
    assert tip(unknown).because[1] == "its power limit held it back in 90% of them"


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(replace(HOT, heat=0.4), id="hot-for-a-while"),
        pytest.param(replace(HOT, clock_mhz=1550), id="hot-and-nearly-at-its-full-clock"),
        pytest.param(replace(CAPPED, clock_mhz=1050), id="heavy-products-at-the-usual-limit"),
        pytest.param(replace(CAPPED, power=0.4), id="at-its-limit-now-and-then"),
    ],
)
def test_is_silent(held):
    assert tip(held) is None
