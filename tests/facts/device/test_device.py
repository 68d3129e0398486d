from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device import device
from perfdoctor.facts.device.device import WaitFacts, at_line, per_step_ms, places, share_per_us, wait_facts
from perfdoctor.model.measured import Location
from perfdoctor.trace.results import IdleCause, KernelClass
from tests.support.rank_traces import (
    copy,
    host_only,
    kernel,
    matrix,
    rank,
    round_trip,
    site,
    step,
    unmarked,
    use,
    wait,
)


def test_the_judged_time_is_that_of_the_steps():
    found = device.device_facts(rank(tuple(step(n, span=100, compute=70) for n in range(4))))
    assert found.window_s == pytest.approx(0.4)
    assert found.steps == 4
    assert found.compute == pytest.approx(0.7)
    assert found.per_step_s(found.compute) == pytest.approx(0.07)


def test_without_steps_it_is_the_span_of_the_devices_work():
    found = device.device_facts(unmarked())
    assert found.window_s == pytest.approx(0.5)
    assert found.steps is None
    assert found.per_step_s(0.5) is None


def test_a_trace_of_the_cpu_has_no_device_facts():
    assert device.device_facts(host_only()) is None


def test_shares_add_up_to_one_whatever_overlaps():
    busy = step(1, compute=40, comm=30, overlap=10, copy=20, copy_overlap=5, idle={"data_wait": 10})
    found = device.device_facts(rank((busy, busy), copies=(copy("HtoD", "pageable", 40),)))
    total = found.compute + found.exposed_comm + found.exposed_copy + sum(found.idle.values())
    assert total == pytest.approx(1.0)
    assert found.exposed_comm == pytest.approx(0.2)
    assert found.exposed_copy == pytest.approx(0.15)
    assert found.idle[IdleCause.DATA_WAIT] == pytest.approx(0.1)


def test_copies_within_the_device_and_memsets_are_its_own_work():
    inner = rank(
        (step(1, compute=50, copy=20),),
        classes=(use("matmul", 50), use("copy", 15), use("memset", 5)),
        copies=(copy("HtoD", "pinned", 5), copy("DtoD", None, 10)),
    )
    found = device.device_facts(inner)
    assert found.exposed_copy == pytest.approx(0.05)
    assert found.compute == pytest.approx(0.65)


def test_copies_from_device_to_device_are_transfer_and_no_part_of_what_the_hosts_take():
    trace = rank(
        (step(1, compute=50, copy=20),),
        classes=(use("matmul", 50), use("copy", 20)),
        copies=(copy("PtoP", None, 15), copy("HtoD", "pinned", 5)),
    )
    found = device.device_facts(trace)
    assert (found.compute, found.exposed_copy) == (pytest.approx(0.5), pytest.approx(0.2))
    copies = device.copy_facts(trace, found)
    assert sum(entry.us for entry in copies.copies) * copies.scale == pytest.approx(0.05)


def test_a_first_step_that_warms_up_is_left_out():
    steps = (step(1, span=300), *(step(n) for n in range(2, 6)))
    assert device.device_facts(rank(steps)).steps == 4


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((step(1, span=300), step(2)), id="too-few-to-tell"),
        pytest.param((step(1, span=120), step(2), step(3)), id="hardly-longer"),
        pytest.param((step(1), step(2), step(3, span=300)), id="a-later-one"),
    ],
)
def test_other_long_steps_stay(steps):
    assert device.judged_steps(steps) == steps


def test_kernels_of_streams_that_overlap_are_scaled_to_the_time_they_cover():
    trace = rank(classes=(use("matmul", 400), use("pointwise", 200), use("communication", 100)))
    facts = device.kernel_facts(trace, device.device_facts(trace))
    assert facts.share(KernelClass.MATMUL, KernelClass.POINTWISE) == pytest.approx(0.6)


def test_copies_within_the_device_are_no_part_of_what_its_kernels_take():
    inner = rank(
        (step(1, compute=50, copy=20),),
        classes=(use("matmul", 50), use("copy", 15), use("memset", 5)),
        kernels=(kernel("gemm", "matmul", 50),),
        copies=(copy("HtoD", "pinned", 5), copy("DtoD", None, 10)),
    )
    facts = device.kernel_facts(inner, device.device_facts(inner))
    assert facts.share(KernelClass.MATMUL) == pytest.approx(0.5)
    assert facts.computing * 50_000 == pytest.approx(0.5)


def test_copies_keep_the_lines_whose_calls_block():
    waits = (wait("aten::to", line=30), wait("aten::to", line=30), wait("aten::item", line=12))
    trace = rank((step(1, copy=10),), copies=(copy("HtoD", "pageable", 10),), blocking=waits)
    facts = device.copy_facts(trace, device.device_facts(trace))
    assert [at.line for at in facts.at] == [30]
    assert facts.scale * 10_000 == pytest.approx(0.1)
    assert facts.per_step(8) == 8


def test_groups_a_trace_does_not_have_are_none():
    trace = rank()
    facts = device.device_facts(trace)
    assert device.copy_facts(trace, facts) is None
    assert device.matrix_facts(trace, facts) is None
    assert device.wait_facts(trace) is None
    assert device.wait_facts(host_only()) is None


def test_products_and_waits_are_handed_on_with_their_scale():
    trace = rank(matrices=(matrix(8, 8, 8, 10),), blocking=(wait(ms=50),))
    facts = device.device_facts(trace)
    assert device.matrix_facts(trace, facts).scale == device.kernel_facts(trace, facts).scale
    waits = device.wait_facts(trace)
    assert waits.per_step_s(50_000) == pytest.approx(0.01)
    assert device.wait_facts(unmarked(blocking=(wait(),))).per_step_s(1.0) is None


def test_a_gain_is_bounded_above_and_what_is_added_slows_down():
    gain = device.without(-0.25, 0.5, 1.0)
    assert (gain.low, gain.likely) == (0.8, 2.0)
    assert gain.high == pytest.approx(20.0)


def test_a_wait_for_what_comes_back_is_told_of_the_round_trip_only() -> None:
    way = round_trip(count=5)
    out = replace(wait("aten::to", direction="DtoH", count=5), at=way.out_at)
    read = wait("aten::item", count=5)
    found = wait_facts(rank(blocking=(out, read), round_trips=(way,)))
    assert found is not None
    assert found.calls == (read,)
    often = replace(out, count=11)  # most of what goes to the host stays there
    assert wait_facts(rank(blocking=(often,), round_trips=(way,))) == WaitFacts((often,), 500_000.0, 5)


def test_places_are_ranked_by_what_the_device_waits_for_them() -> None:
    sites = (site(ms=1, line=3), site(ms=1, idle=5, line=8), site(ms=3, line=3))
    found = [(op, at.line if at else 0, us) for op, at, us in places(sites, 2)]
    assert found == [("aten::to", 8, 6_000.0), ("aten::to", 3, 4_000.0)]


def test_a_place_is_named_by_line_and_text() -> None:
    assert at_line(None) == ""
    assert at_line(Location("train.py", 8, "main", "x.cpu()")) == " at line 8 (`x.cpu()`)"
    assert per_step_ms(5_000, 5) == "1.00 ms a step"
    assert per_step_ms(5_000, None) == "5.00 ms"


def test_microseconds_become_shares_of_the_judged_steps() -> None:
    long_first = (step(1, span=1000.0), *(step(number) for number in range(2, 7)))
    trace = rank(long_first)
    seen = device.device_facts(trace)
    assert seen is not None
    assert seen.steps == 5
    assert share_per_us(seen) == pytest.approx(1 / (5 * 100_000))


def test_devices_that_do_the_same_at_the_same_time_do_it_once() -> None:
    def alone(count: int) -> float:
        kernels = (kernel("gemm", "matmul", 200 * count), kernel("vectorized", "pointwise", 100 * count))
        steps = tuple(step(number, compute=60) for number in range(1, 6))
        trace = rank(steps, kernels=kernels, devices=tuple(range(count)))
        seen = device.device_facts(trace)
        assert seen is not None
        facts = device.kernel_facts(trace, seen)
        return facts.alone(facts.kernels[-1])

    assert alone(4) == pytest.approx(alone(1))


def test_of_idle_time_in_a_window_that_part_is_left_which_is_left_of_all_of_it():
    trace = rank((step(1, compute=40),) * 5, copies=(copy("HtoD", "pageable", 5),))
    whole = device.device_facts(trace)
    assert device.copy_facts(trace, whole).unprofiled == pytest.approx(1.0)
    # a step of 50 ms, of which the device idles 10
    faster = replace(whole, window_s=0.25, compute=0.8, idle={IdleCause.HOST_LATE: 0.2})
    assert device.copy_facts(trace, faster).unprofiled == pytest.approx(10 / 60)
