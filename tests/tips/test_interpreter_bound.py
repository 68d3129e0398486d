from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device.created_tensors import CreatedTensors
from perfdoctor.tips.interpreter_bound import interpreter_bound as tip
from tests.support import facts
from tests.support.rank_traces import launches

NONE = CreatedTensors()


def test_says_how_long_the_device_idles_and_how_many_launches_wait_for_it():
    advice = tip(facts.device(host_late=0.5), launches(queue=0.4), NONE)
    assert advice.because == (
        "the device idles 50.0% of the time because the host has not launched its next work yet",
        "on average 0.4 launches are queued for the device",
    )


def test_tries_one_launch_for_many_kernels():
    assert (
        tip(facts.device(host_late=0.5), launches(), NONE).tweak == "--compile --compile-mode reduce-overhead"
    )


def test_the_profilers_own_time_is_taken_off_before_anything_is_promised():
    gain = facts.gain(tip(facts.device(host_late=0.5), launches(), NONE))
    assert gain.likely == pytest.approx(1 / (1 - 0.7 * (0.5 - (1 - 1 / 1.2))))
    assert gain.high == pytest.approx(1 / (1 - 0.95 * 0.5))


def test_what_a_device_idles_without_a_profiler_goes_whole():
    unprofiled = replace(facts.device(host_late=0.12), profiled=False)
    gain = facts.gain(tip(unprofiled, launches(), NONE))
    assert gain.likely == pytest.approx(1 / (1 - 0.7 * 0.12))
    assert gain.low == pytest.approx(1 / (1 - 0.5 * 0.12))


def test_of_a_trace_what_the_host_creates_tensors_for_is_left_to_their_finding():
    advice = tip(facts.device(host_late=0.6), launches(), CreatedTensors(creating=0.2))
    assert "the device idles 40.0% of the time" in advice.because[0]
    assert tip(facts.device(host_late=0.6), launches(), CreatedTensors(creating=0.55)) is None


def test_what_the_host_launches_beside_the_model_stays():
    unprofiled = replace(facts.device(host_late=0.5), profiled=False, compilable=0.4)
    assert facts.gain(tip(unprofiled, launches(), NONE)).likely == pytest.approx(1 / (1 - 0.7 * 0.2))


@pytest.mark.parametrize(("blocked", "late"), [(0.0, 0.3), (0.15, 0.45), (0.4, 0.5)])
def test_while_a_tensor_is_away_nothing_is_to_be_launched(blocked, late):
    device = replace(facts.device(host_late=0.5, sync=blocked), profiled=False, away=0.2)
    assert device.launching == pytest.approx(late)
    assert facts.gain(tip(device, launches(), NONE)).likely == pytest.approx(1 / (1 - 0.7 * late))


def test_launches_on_their_way_count_as_far_as_a_launch_takes():
    advice = tip(facts.device(launch_gap=0.3), launches(count=10_000), NONE)
    assert (
        advice.because[-1] == "it idles another 20.0% of the time between a launch and its start"
    )  # 100 ms of 500
    gain = facts.gain(advice)
    assert (gain.low, gain.likely, gain.high) == pytest.approx((1.0, 1 / 0.9, 1 / (1 - 0.9 * 0.2)))


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(facts.device(data_wait=0.5), id="idle-for-another-reason"),
        pytest.param(facts.device(host_late=0.12), id="no-more-than-the-profiler-costs"),
        pytest.param(facts.device(host_late=0.05), id="little"),
    ],
)
def test_is_silent(device):
    assert tip(device, launches(), NONE) is None


def test_is_silent_where_the_host_is_far_ahead_and_something_else_holds_it_up():
    assert tip(facts.device(host_late=0.5), launches(queue=170), NONE) is None
