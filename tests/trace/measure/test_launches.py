from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.trace.measure.launches import launches, launching_calls
from perfdoctor.trace.parse.columns import UNKNOWN
from tests.support.traces import Recording


def test_a_kernel_belongs_to_the_call_of_its_correlation() -> None:
    made = Recording()
    made.call("cudaLaunchKernel", 5, 6, correlation=9)
    made.call("cudaLaunchKernel", 1, 2, correlation=3)
    made.kernel("a", 10, 11, correlation=3)
    made.kernel("b", 11, 12, correlation=9)
    made.kernel("c", 12, 13, correlation=4)
    made.kernel("d", 13, 14)
    assert launching_calls(made.trace()).tolist() == [1, 0, UNKNOWN, UNKNOWN]


def test_correlation_zero_belongs_to_nobody() -> None:
    made = Recording()
    made.call("cudaStreamIsCapturing", 1, 2, correlation=0)
    made.kernel("a", 10, 11, correlation=0)
    assert launching_calls(made.trace()).tolist() == [UNKNOWN]


def test_a_correlation_that_several_processes_have_used_belongs_to_nobody() -> None:
    made = Recording()
    made.call("cudaLaunchKernel", 1, 2, correlation=3)
    made.call("cudaLaunchKernel", 5, 6, correlation=3, thread="other")
    made.call("cudaLaunchKernel", 7, 8, correlation=4, thread="other")
    made.kernel("a", 10, 11, correlation=3)
    made.kernel("b", 11, 12, correlation=4)
    alone = made.trace()
    assert launching_calls(alone).tolist() == [0, 2]
    merged = replace(alone, threads=[("1", "main"), ("2", "other")])
    assert launching_calls(merged).tolist() == [UNKNOWN, 2]


def test_a_replayed_graph_belongs_to_its_launch() -> None:
    made = Recording()
    made.call("cudaGraphLaunch", 0, 3, correlation=7)
    for begin in (10, 20, 30):
        made.kernel("node", begin, begin + 5, correlation=7)
    assert launching_calls(made.trace()).tolist() == [0, 0, 0]


def test_delay_and_queue_follow_from_calls_and_begins() -> None:
    made = Recording()
    made.launched("a", call_begin=0, begin=3, end=10)  # the call ends at 1
    made.launched("b", call_begin=2, begin=10, end=12)
    made.launched("c", call_begin=20, begin=24, end=30)
    trace = made.trace()
    found = launches(trace, launching_calls(trace))
    assert found is not None
    assert (found.count, found.queue_max, found.call_us) == (3, 2, 3.0)
    assert (found.delay_median_us, found.delay_mean_us) == (3.0, 4.0)
    assert found.queue_mean == pytest.approx((3 + 8 + 4) / 24)


def test_a_kernel_that_begins_before_its_call_was_never_queued() -> None:
    made = Recording()
    made.launched("a", call_begin=5, begin=4, end=10)  # clocks differ by a little
    trace = made.trace()
    found = launches(trace, launching_calls(trace))
    assert found is not None
    assert (found.delay_median_us, found.queue_mean) == (-2.0, 0.0)


def test_without_launches_nothing_is_said() -> None:
    made = Recording()
    made.kernel("a", 0, 5)
    trace = made.trace()
    assert launches(trace, launching_calls(trace)) is None
