"""Each cause of idle time, in a trace that has no other; and that they always add up."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor.trace.measure import intervals
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.results import IdleCause
from tests.support.traces import Recording


def causes(made: Recording) -> dict[str, float]:
    return {cause.value: us for cause, us in measure(made.trace()).idle_us.items()}


def test_a_launch_that_comes_late_is_the_hosts() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.launched("b", 40, 45, 50)
    assert causes(made) == {"host_late": 30.0, "launch_gap": 5.0}


def test_a_launch_that_was_there_leaves_a_launch_gap() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.launched("b", 2, 14, 20)
    assert causes(made) == {"launch_gap": 4.0}


@pytest.mark.parametrize("at_once", [1, 2, 1 << 15])
def test_a_gap_is_charged_to_each_of_the_steps_that_it_reaches_into(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(intervals, "PART", at_once)
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.launched("b", 40, 45, 50)
    made.launched("c", 49, 52, 60)
    for number, (begin, end) in enumerate([(6, 9), (10, 20), (20, 42), (42, 48), (49, 60)]):
        made.mark(f"ProfilerStep#{number}", begin, end)
    host_late, launch_gap = IdleCause.HOST_LATE, IdleCause.LAUNCH_GAP
    assert [step.idle_us for step in measure(made.trace()).steps] == [
        {},
        {host_late: 10.0},
        {host_late: 20.0, launch_gap: 5.0},
        {},
        {launch_gap: 2.0},
    ]


def test_time_inside_a_dataloader_is_a_wait_for_data() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 8, 35)
    made.launched("b", 40, 45, 50)
    assert causes(made) == {"data_wait": 25.0, "host_late": 5.0, "launch_gap": 5.0}


def test_a_dataloader_that_old_traces_call_an_operator_counts_too() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 8, 40)
    made.launched("b", 40, 40, 50)
    assert causes(made) == {"data_wait": 30.0}
    assert not measure(made.trace()).ops


def test_a_dataloader_of_another_thread_explains_nothing() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.mark("enumerate(DataLoader)#x", 8, 40, thread="prefetch")
    made.launched("b", 40, 40, 50)
    assert causes(made) == {"host_late": 30.0}


def test_what_follows_a_wait_that_let_the_queue_run_empty_is_the_waits() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.call("cudaStreamSynchronize", 2, 12)
    made.launched("b", 40, 45, 50)
    assert causes(made) == {"sync": 30.0, "launch_gap": 5.0}
    (blocking,) = measure(made.trace()).blocking
    assert (blocking.call, blocking.us, blocking.idle_us) == ("cudaStreamSynchronize", 10.0, 30.0)


def test_a_wait_for_a_device_that_is_idle_already_costs_only_itself() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.call("hipDeviceSynchronize", 20, 22)
    made.launched("b", 40, 45, 50)
    assert causes(made) == {"sync": 2.0, "host_late": 28.0, "launch_gap": 5.0}


def test_a_wait_that_ended_long_before_the_gap_is_not_blamed() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.call("cudaEventSynchronize", 1, 3)
    made.launched("b", 40, 45, 50)
    assert causes(made) == {"host_late": 30.0, "launch_gap": 5.0}


def test_time_inside_a_blocking_copy_is_the_copys() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.call("cudaMemcpyAsync", 12, 31, correlation=77)
    made.copy("Memcpy HtoD (Pageable -> Device)", 25, 30, correlation=77)
    assert causes(made) == {"host_late": 2.0, "copy": 13.0}


@pytest.mark.parametrize("is_copy", [True, False])
def test_what_the_host_does_once_the_launch_is_made_costs_the_device_nothing(is_copy: bool) -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.launched("b", 8, 400, 420)
    if is_copy:
        made.call("cudaMemcpyAsync", 12, 431, correlation=77)
        made.copy("Memcpy DtoH (Device -> Pageable)", 420, 430, correlation=77)
    else:
        made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 12, 430)
    assert causes(made) == {"launch_gap": 390.0}


def test_a_device_that_starts_long_after_the_launch_waits_for_what_the_trace_does_not_hold() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.launched("b", 8, 463_000, 463_010)
    assert causes(made) == {"launch_gap": 1000.0, "unknown": 461_990.0}


def test_latency_counts_from_the_begin_of_a_gap_whose_launch_was_queued_for_long() -> None:
    made = Recording()
    made.launched("a", 0, 5, 90_000)
    made.launched("b", 8, 90_100, 90_200)
    assert causes(made) == {"launch_gap": 100.0}


def test_a_copy_from_pinned_memory_holds_nobody() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.call("cudaMemcpyAsync", 12, 31, correlation=77)
    made.copy("Memcpy HtoD (Pinned -> Device)", 25, 30, correlation=77)
    assert causes(made) == {"host_late": 5.0, "launch_gap": 10.0}


@pytest.mark.parametrize(("returns", "late"), [(2015, 1995.0), (2030, 2000.0)])
def test_a_long_call_that_launches_is_the_hosts_time(returns: float, late: float) -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.call("cudaLaunchKernel", 11, returns, correlation=77)
    made.kernel("b", 2020, 2030, correlation=77)
    assert causes(made) == {"host_late": late, "launch_gap": 2010 - late}


def test_a_gap_before_an_event_without_a_launch_is_unknown() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.kernel("b", 25, 30)
    assert causes(made) == {"unknown": 15.0}


def test_the_idle_time_of_a_step_reaches_beyond_the_first_and_the_last_event() -> None:
    made = Recording()
    made.mark("ProfilerStep#3", 0, 100)
    made.launched("a", 20, 30, 60)
    (step,) = measure(made.trace()).steps
    assert (step.times.span_us, step.times.busy_us) == (100.0, 30.0)
    assert step.idle_us == {IdleCause.HOST_LATE: 60.0, IdleCause.LAUNCH_GAP: 10.0}


def test_events_without_a_duration_leave_the_whole_span_idle() -> None:
    made = Recording()
    made.launched("a", 0, 5, 5)
    made.launched("b", 6, 10, 10)
    found = measure(made.trace())
    assert found.times is not None
    assert (found.times.idle_us, sum(found.idle_us.values())) == (5.0, 5.0)


moment = st.integers(0, 60)
spans = st.lists(st.tuples(moment, st.integers(0, 15)), max_size=5)


@settings(deadline=None)
@given(
    kernels=st.lists(
        st.tuples(moment, st.integers(-3, 70), st.integers(0, 12), st.booleans()), min_size=1, max_size=8
    ),
    loading=spans,
    waiting=spans,
    copying=spans,
    steps=st.lists(moment, min_size=2, max_size=4, unique=True),
)
def test_causes_always_add_up_to_the_idle_time(
    kernels: list[tuple[int, int, int, bool]], loading: Any, waiting: Any, copying: Any, steps: list[int]
) -> None:
    made = Recording()
    for call, begin, length, known in kernels:
        if known:
            made.launched("k", call, begin, begin + length, thread=f"t{length % 2}")
        else:
            made.kernel("k", begin, begin + length)
    for begin, length in loading:
        made.mark("enumerate(DataLoader)#x", begin, begin + length, thread="t0")
    for begin, length in waiting:
        made.call("cudaStreamSynchronize", begin, begin + length, thread="t0")
    for begin, length in copying:
        made.call("cudaMemcpy", begin, begin + length, thread="t1")
    borders = sorted(steps)
    for number, (begin, end) in enumerate(itertools.pairwise(borders)):
        made.mark(f"ProfilerStep#{number}", begin, end)
    found = measure(made.trace())
    assert found.times is not None
    assert sum(found.idle_us.values()) == pytest.approx(found.times.idle_us)
    assert min(found.idle_us.values(), default=0.0) >= 0
    for step in found.steps:
        assert sum(step.idle_us.values()) == pytest.approx(step.times.idle_us)
        assert min(step.idle_us.values(), default=0.0) >= 0
    charged_us = sum(sum(step.idle_us.values()) for step in found.steps)
    assert sum(use.idle_us for use in found.blocking) <= charged_us + 1e-6
