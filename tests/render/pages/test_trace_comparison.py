from __future__ import annotations

import json
from dataclasses import replace

import pytest

from perfdoctor.diagnosis.trace_comparison import compare
from perfdoctor.render.documents import trace_comparison as comparison_document
from perfdoctor.render.pages import trace_comparison
from perfdoctor.trace.lost import INVALID
from tests.support.drawn import drawn
from tests.support.rank_traces import host_only, kernel, rank, step, times, unmarked

SLOW = rank(tuple(step(n, span=200, compute=60) for n in range(4)))
FAST = rank(tuple(step(n, span=100, compute=60) for n in range(4)), kernels=(kernel("new_one", "matmul", 9),))
CHANGED = compare([SLOW], [FAST])


def test_the_change_of_the_step_comes_first():
    lines = drawn(trace_comparison.page(CHANGED)).splitlines()
    assert "A step takes 200 ms before and 100 ms after: 2.0× as fast" in lines[5]
    assert "per step" in lines[6]


def test_a_step_that_was_left_out_is_named():
    page = drawn(trace_comparison.page(compare([rank((step(0, span=500), *SLOW.steps[1:]))], [FAST])))
    assert "ProfilerStep#0 took much longer" in page


@pytest.mark.parametrize(("ranks", "told"), [(1, ""), (2, " and 1 more rank"), (3, " and 2 more ranks")])
def test_several_traces_of_a_side_are_counted(ranks, told):
    before = [replace(SLOW, rank=number) for number in range(ranks)]
    line = drawn(trace_comparison.page(compare(before, [FAST]))).splitlines()[2]
    assert line.split("  ")[2] == f"{SLOW.file}{told}"


def test_totals_are_called_totals():
    page = drawn(trace_comparison.page(compare([SLOW], [unmarked()])))
    assert "totals" in page
    assert "Steps are not marked on both sides" in page


def test_a_device_is_not_held_against_none():
    page = drawn(trace_comparison.page(compare([replace(host_only(), steps=())], [unmarked()])))
    assert "cannot be compared" in page
    assert "as fast" not in page


def test_traces_without_time_are_not_said_to_lack_a_device():
    timeless = unmarked(times=times(0, 0), idle_us={}, classes=(), kernels=())
    page = drawn(trace_comparison.page(compare([timeless], [timeless])))
    assert "cannot be compared: they cover no time" in page
    assert "work of a device" not in page
    assert "Where the time goes" not in page
    assert "one of them covers no time" in drawn(trace_comparison.page(compare([timeless], [unmarked()])))


def test_a_device_whose_work_is_missing_is_not_said_to_be_fast():
    page = drawn(
        trace_comparison.page(compare([SLOW], [replace(host_only(), file="b.json", notes=(INVALID,))]))
    )
    assert "gone" not in page
    assert "no work of a device is in b.json" in page
    assert f"b.json: {INVALID[:20]}" in page


def test_new_and_gone_kernels_are_called_so():
    page = drawn(trace_comparison.page(CHANGED))
    assert any("new_one" in line and " new " in line for line in page.splitlines())
    assert any("volta_sgemm" in line and " gone " in line for line in page.splitlines())


def test_what_grew_manifold_is_said_as_a_factor():
    grown = rank(kernels=(kernel("volta_sgemm_128x64_nn", "matmul", 200 * 35),))
    assert "35×" in drawn(trace_comparison.page(compare([rank()], [grown])))


@pytest.mark.parametrize(("after", "written"), [(200, "0%"), (199.4, "0%"), (200.6, "0%"), (201.2, "+1%")])
def test_what_rounds_to_no_change_has_no_sign(after, written):
    moved = compare([SLOW], [rank(tuple(step(n, span=after, compute=60) for n in range(4)))])
    page = drawn(trace_comparison.page(moved))
    (row,) = (line for line in page.splitlines() if line.split()[:1] == ["step"])
    assert row.split()[-2] == written


def test_no_change_is_said():
    assert "Kernels: no change" in drawn(trace_comparison.page(compare([SLOW], [SLOW])))


@pytest.mark.parametrize("width", range(40, 81, 5))
def test_names_and_times_are_whole_however_narrow_the_terminal(width):
    rows = [line.split() for line in drawn(trace_comparison.page(CHANGED), width).splitlines()]
    assert ["step", "200", "ms", "100", "ms"] in [row[:5] for row in rows]
    assert ["device", "idle", "140", "ms", "40", "ms"] in [row[:6] for row in rows]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    page = drawn(trace_comparison.page(CHANGED), width)
    assert max(map(len, page.splitlines())) <= width


def test_a_list_is_as_long_as_asked_for():
    many = rank(kernels=tuple(kernel(f"kernel_{n}", "matmul", 10 + n) for n in range(20)))
    page = drawn(trace_comparison.page(compare([rank(kernels=())], [many]), top=3))
    assert page.count("kernel_") == 3


def test_names_cannot_steer_the_terminal():
    evil = rank(kernels=(kernel("\x1b[3mred[/bold]\n", "matmul", 50),))
    page = drawn(trace_comparison.page(compare([SLOW], [evil])), 100)
    assert "\x1b" not in page
    assert "\\x1b[3mred[/bold]" in page


def test_json_holds_every_change():
    document = json.loads(comparison_document.dumps(CHANGED))
    assert document["schema"] == "perfdoctor.trace-comparison/1"
    assert document["per_step"] is True
    assert document["before"]["steps"] == 4
    step = document["times"][0]
    assert (step["name"], step["grown_us"]) == ("step", -100_000)
    assert {change["name"] for change in document["kernels"]} >= {"new_one", "volta_sgemm_128x64_nn"}
