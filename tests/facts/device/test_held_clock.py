from __future__ import annotations

import pytest

from perfdoctor.facts.device.held_clock import held_clock_facts
from tests.support.records import MS


def samples(*throttle, clock=1200, busy=0.9, count=20, top=1600, first=0, **more):
    return tuple(
        {
            "t_ns": (1500 + 1000 * (first + n)) * MS,
            "name": "Tesla V100",
            "utilisation": busy,
            "sm_clock_mhz": clock,
            "sm_clock_max_mhz": top,
            "throttle": list(throttle),
            **more,
        }
        for n in range(count)
    )


def facts(*devices):
    return held_clock_facts(dict(enumerate(devices)))


def test_shares_and_the_mean_clock_are_those_of_samples_that_computed():
    hot = samples("temperature (hardware)", "power cap", temperature_c=88, power_limit_w=250)
    idle = samples(busy=0.1, clock=300, first=20)
    found = facts(hot + idle)
    assert (found.samples, found.heat, found.power) == (20, 1.0, 1.0)
    assert (found.clock_mhz, found.top_mhz, found.lost) == (1200, 1600, pytest.approx(0.25))
    assert found.computing == pytest.approx(0.5)
    assert (found.temperature_c, found.power_limit_w) == (88, 250)


def test_reasons_are_told_apart():
    found = facts(samples("power cap") + samples("hardware slowdown", first=20))
    assert (found.heat, found.power) == (0.5, 0.5)


def test_of_several_devices_the_one_that_is_held_back_most_is_told():
    assert facts(samples("power cap", clock=1500), samples("power cap", clock=900)).clock_mhz == 900


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(samples(), id="held-back-by-nothing"),
        pytest.param(samples("sync boost"), id="boosts-with-others"),
        pytest.param(samples("power cap", count=9), id="too-few-samples"),
        pytest.param(samples("power cap", busy=0.2), id="hardly-computes"),
        pytest.param(samples("power cap", throttle=None), id="reasons-are-not-told"),
        pytest.param(samples("power cap", sm_clock_max_mhz=None), id="clocks-are-not-told"),
        pytest.param((), id="no-samples"),
    ],
)
def test_there_is_nothing_to_tell(device):
    assert facts(device) is None
