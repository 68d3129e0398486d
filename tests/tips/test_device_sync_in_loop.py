from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.device_sync_in_loop import device_sync_in_loop as tip
from tests.support import facts
from tests.support.rank_traces import wait


def test_ranks_places_by_the_time_the_device_idles_behind_them():
    advice = tip(facts.waits(wait("aten::item", 100, 20, line=12), wait("aten::nonzero", 50, 40, line=30)))
    assert advice.because == (
        "the host waits for the device 30.0% of the time",
        "the device idles 12.0% of the time because of these waits",
        "aten::nonzero at line 30: 10.00 ms of waiting a step, then 8.00 ms idle",
        "aten::item at line 12: 20.00 ms of waiting a step, then 4.00 ms idle",
    )
    assert [at.line for at in advice.at] == [30, 12]


def test_the_host_gets_ahead_by_no_more_than_it_waited():
    gain = facts.gain(tip(facts.waits(wait(ms=25, idle=100))))
    assert gain.likely == pytest.approx(1 / 0.95)
    assert gain.high == pytest.approx(1 / 0.8)


def test_lines_that_were_sampled_for_longer_than_a_profiled_host_waits_go():
    waits = replace(facts.waits(wait(ms=25, idle=20)), sampled={("train.py", 12): 0.3}, idles=0.25)
    advice = tip(waits)
    assert "their lines take 30.0% of the step" in advice.because
    gain = facts.gain(advice)
    assert gain.likely == pytest.approx(1 / 0.75)  # the device idles for no longer
    assert gain.high == pytest.approx(gain.likely)
    elsewhere = tip(replace(waits, sampled={("train.py", 13): 0.3}))
    assert facts.gain(elsewhere).likely == pytest.approx(1 / 0.96)


def test_without_marked_steps_it_counts_calls():
    advice = tip(facts.waits(wait(ms=100, idle=50, count=40), steps=None))
    assert advice.because[-1] == "aten::item at line 12: 100.00 ms of waiting in 40 calls, then 50.00 ms idle"


def test_a_call_without_operator_and_line_is_named_by_itself():
    explicit = wait(None, 100, 50, line=None, call="cudaDeviceSynchronize")
    assert tip(facts.waits(explicit)).because[-1].startswith("cudaDeviceSynchronize: ")


def test_what_is_copied_to_the_host_is_waited_for():
    out = wait("aten::to", 100, 50, call="cudaMemcpyAsync", direction="DtoH", host_memory="pageable")
    assert tip(facts.waits(out)).because[-1].startswith("aten::to at line 12: 20.00 ms of waiting a step")


def test_a_value_read_through_pageable_memory_waits_inside_its_copy():
    assert tip(facts.waits(wait("aten::item", 100, 50, call="cudaMemcpyAsync"))) is not None


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(wait(ms=400, idle=0), id="the-device-was-busy-all-along"),
        pytest.param(wait(ms=400, idle=100, count=1), id="once-at-the-end"),
        pytest.param(wait(ms=2, idle=2), id="small"),
        pytest.param(wait("aten::to", ms=100, idle=50, call="cudaMemcpyAsync"), id="a-blocking-copy"),
        pytest.param(wait("aten::to", ms=100, idle=50, direction="HtoD"), id="a-wait-for-a-batch"),
        pytest.param(
            wait("aten::conv2d", 100, 50, call="cudaEventSynchronize"), id="cudnn-times-its-kernels"
        ),
        pytest.param(wait("aten::addmm", 100, 50, call="cudaFree"), id="the-allocator-short-of-memory"),
    ],
)
def test_is_silent(call):
    assert tip(facts.waits(call)) is None
