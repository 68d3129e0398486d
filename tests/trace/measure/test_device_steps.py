from __future__ import annotations

import pytest

from perfdoctor.facts.device.device import device_facts, kernel_facts
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.results import RankTrace
from tests.support.traces import Recording

MS = 1000


def running_ahead(steps: int = 4) -> RankTrace:
    """Steps that the host launches in 1 ms each and that the device takes 8 for, one before the first mark."""
    made = Recording()
    for number in range(steps + 1):
        begin = number * MS
        if number:
            made.mark(f"ProfilerStep#{number}", begin, begin + MS)
        made.launched("gemm", begin + 100, 8 * begin + 200, 8 * begin + 8200)
    return measure(made.trace())


def test_where_the_host_runs_ahead_a_step_is_what_the_device_does_for_it() -> None:
    found = running_ahead()
    assert [(step.times.span_us, step.times.busy_us) for step in found.steps] == [(8.0 * MS, 8.0 * MS)] * 4
    assert all(step.idle_us == {} for step in found.steps)
    device = device_facts(found)
    assert device is not None
    assert (device.steps, device.window_s, device.compute) == (4, pytest.approx(0.032), pytest.approx(1.0))
    assert kernel_facts(found, device).scale * found.kernels[0].us == pytest.approx(1.0)


def test_a_device_that_keeps_up_has_the_steps_of_the_host() -> None:
    made = Recording()
    for number in range(3):
        made.mark(f"ProfilerStep#{number}", 100 * number, 100 * number + 100)
        made.launched("gemm", 100 * number + 10, 100 * number + 20, 100 * number + 90)
    assert [(step.times.span_us, step.times.busy_us) for step in measure(made.trace()).steps] == [
        (100, 70)
    ] * 3


def test_a_step_that_launches_nothing_takes_no_time_of_a_device_that_lags() -> None:
    made = Recording()
    for number in range(3):
        made.mark(f"ProfilerStep#{number}", 10 * number, 10 * number + 10)
        if number != 1:
            made.launched("gemm", 10 * number + 1, 100 * number + 20, 100 * number + 100)
    found = measure(made.trace())
    assert [step.times.span_us for step in found.steps] == [100, 0, 200]
    device = device_facts(found)
    assert device is not None
    assert device.steps == 3


def test_work_from_before_that_outlasts_all_steps_leaves_them_as_they_are() -> None:
    made = Recording()
    made.launched("gemm", 0, 5, 500)
    made.mark("ProfilerStep#1", 10, 100)
    made.mark("ProfilerStep#2", 100, 200)
    assert [step.times.span_us for step in measure(made.trace()).steps] == [90, 100]
