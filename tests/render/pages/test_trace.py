from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from perfdoctor.diagnosis import trace_report
from perfdoctor.render import terminal
from perfdoctor.render.pages import trace as trace_page
from perfdoctor.trace.lost import CUT_OFF
from perfdoctor.trace.parse.columns import Skipped
from perfdoctor.trace.results import KernelClass, OpUse, Roof
from tests.support.drawn import drawn
from tests.support.rank_traces import copy, host_only, kernel, rank, step, times, unmarked, use, wait

STEPS = tuple(step(number, copy=3, idle={"data_wait": 30}) for number in range(3, 9))
FULL = rank(
    STEPS,
    classes=(
        use("matmul", 200, tensor=150),
        use("pointwise", 100),
        use("copy", 10),
    ),
    kernels=(
        kernel("gemm", "matmul", 200, dtype="float16", tensor=True),
        kernel("vectorized", "pointwise", 100),
    ),
    roofs=(
        Roof(KernelClass.MATMUL, "float16", 10e12, 0.08, 1e11, 0.1, "compute", 16_000.0),
        Roof(KernelClass.POINTWISE, None, None, None, 600e9, 0.67, "memory", 67_000.0),
        Roof(KernelClass.COPY, None, None, None, 10e9, 0.01, "memory", 100.0),
    ),
    copies=(copy("HtoD", "pageable", 30),),
    blocking=(wait(),),
)


def shown(*ranks, width=80, **options):
    return drawn(trace_page.page(trace_report.report(ranks or (FULL,)), **options), width)


def test_the_verdict_is_in_the_first_five_lines():
    assert any("Training waits for data: 30% of its time" in line for line in shown().splitlines()[:5])


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(FULL, id="full"),
        pytest.param(host_only(data=40), id="cpu-only"),
        pytest.param(unmarked(), id="no-steps"),
    ],
)
def test_no_line_is_wider_than_the_terminal_or_than_one_can_read(trace, width):
    lines = shown(trace, width=width).splitlines()
    assert max(map(len, lines)) <= min(width, terminal.WIDEST)


@pytest.mark.parametrize("width", range(40, 81, 4))
def test_names_and_times_of_tables_are_whole_however_narrow_the_terminal(width):
    rows = [line.split() for line in shown(width=width).splitlines()]
    assert ["matmul", "200", "ms"] in [row[:3] for row in rows]
    assert ["pointwise", "100", "ms"] in [row[:3] for row in rows]
    assert ["HtoD,", "pageable", "30", "ms"] in [row[:4] for row in rows]


def test_one_rank_fits_a_screen_or_so():
    many = replace(
        FULL,
        kernels=tuple(kernel(f"kernel_{number}", "matmul", 5) for number in range(50)),
        ops=tuple(OpUse(f"aten::op{number}", 5, 5.0, 5.0, 5) for number in range(50)),
        blocking=tuple(wait(line=number) for number in range(1, 30)),
    )
    assert len(shown(many).splitlines()) <= 70
    assert "top 5 of 50" in shown(many)
    assert "kernel_19" in shown(many, top=20)


def test_bars_show_where_a_step_goes_each_beginning_where_the_one_above_ends():
    rows = [line for line in shown().splitlines() if "█" in line]
    assert [row.split("  ")[1] for row in rows] == [
        "compute",
        "copies",
        "idle: data wait",
        "idle: host late",
    ]
    spans = [(row.index("█"), len(row)) for row in rows]
    assert all(before[1] == after[0] for before, after in pairwise(spans))


def test_classes_tell_tensor_cores_and_what_they_reach():
    page = shown()
    matmul = next(line for line in page.splitlines() if line.strip().startswith("matmul"))
    assert "75%" in matmul
    assert "10 TFLOP/s, 8% of peak" in matmul
    assert "600 GB/s, 67% of peak" in page
    assert "1% of peak" not in page


def test_what_takes_next_to_no_time_is_left_to_longer_lists():
    small = replace(
        FULL,
        classes=(use("matmul", 200), use("memset", 0.1)),
        copies=(copy("DtoH", "pinned", 0.1),),
        blocking=(wait(ms=0.1, idle=0.1),),
    )
    for text in ("memset", "DtoH", "cudaStreamSynchronize"):
        assert text not in shown(small)
        assert text in shown(small, top=10)


def test_copies_waits_and_memory_are_shown():
    page = shown()
    assert any("HtoD, pageable" in line and "3.33" in line for line in page.splitlines())
    assert "cudaStreamSynchronize in aten::item" in page
    assert "memory 4 GB of 16 GB" in page


def test_a_trace_of_the_cpu_says_that_there_is_no_device():
    page = shown(host_only(data=40))
    assert "CPU only" in page
    assert "no work of a device" in page
    assert "in DataLoader" in page


def test_a_first_step_that_warms_up_is_no_part_of_a_step_on_the_cpu_either():
    trace = host_only(data=40)
    page = shown(
        replace(trace, steps=(replace(trace.steps[0], times=times(span=900, compute=0)), *trace.steps[1:]))
    )
    assert "One step: 100 ms" in page
    assert "ProfilerStep#3 took much longer than the steps after it and was left out" in page


def test_a_trace_without_steps_says_what_its_shares_are_of():
    page = shown(unmarked())
    assert "no step marked" in page
    assert "Device's span: 500 ms" in page


def test_several_ranks_have_a_row_each():
    late = replace(rank(tuple(step(n, compute=90) for n in range(3, 8))), rank=1)
    page = shown(rank(tuple(step(n, comm=30) for n in range(3, 8))), late)
    rows = page[page.index("  2 ranks, slowest first") :].splitlines()[3:5]
    assert [row.split()[0] for row in rows] == ["1", "0"]


def test_a_rank_without_a_number_or_a_device_is_shown_all_the_same():
    page = shown(rank(), replace(host_only(), rank=None))
    assert any(line.strip().startswith("file 2") for line in page.splitlines())


def test_a_device_without_a_name_is_still_a_device():
    assert "device not named" in shown(replace(FULL, device=None))


def test_a_bottleneck_that_no_tip_fits_sends_the_reader_to_the_script():
    page = shown(rank(tuple(step(n, compute=20, idle={"data_wait": 80}) for n in range(5)), peak=None))
    assert "No known cause fits" in page


def test_work_of_a_device_that_takes_no_time_is_work_all_the_same():
    work = {"classes": (use("matmul", 0),), "kernels": (kernel("k", "matmul", 0),)}
    page = shown(unmarked(times=times(0, 0), idle_us={}, end_ns=0, **work))
    assert "no work of a device" not in page
    assert "the device's work takes no time" in page
    assert any(line.split()[:4] == ["matmul", "0", "s", "0%"] for line in page.splitlines())


def test_a_device_whose_work_is_missing_is_not_said_to_have_done_none():
    page = shown(replace(host_only(), notes=(CUT_OFF,)))
    assert page.count("the device's work is missing") == 2  # below the title, and above the host's time
    assert "CPU only" not in page
    assert "no work of a device" not in page


def test_what_was_skipped_is_said():
    page = shown(replace(FULL, skipped=Skipped(1000, 3, "the file ends early")))
    assert "the file ends early" in page


def test_names_from_the_trace_cannot_steer_the_terminal_and_are_no_markup():
    evil = "\x1b[31m[bold]x[/bold]\n\u202e"
    page = shown(
        replace(
            FULL,
            file=evil,
            device=evil,
            kernels=(kernel(evil, "matmul", 5),),
            ops=(OpUse(evil, 1, 1.0, 1.0, 1),),
            blocking=(wait(evil, call=evil),),
            notes=(evil,),
            steps=tuple(replace(entry, name=evil) for entry in FULL.steps),
            skipped=Skipped(1, 1, evil),
        ),
        width=100,
    )
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "[bold]x" in page


def test_what_to_type_next_is_said_and_what_was_not_judged_is_counted():
    page = shown()
    assert "--perfetto" in page
    assert "--compare" in page
    assert "not judged" in page


def test_findings_beyond_the_third_are_counted():
    many = rank(
        tuple(step(n, compute=30, comm=20, copy=20, idle={"sync": 10, "host_late": 20}) for n in range(6)),
        copies=(copy("HtoD", "pageable", 30),),
        blocking=(wait(ms=150, idle=60),),
    )
    page = shown(many)
    assert "more finding" in page
    assert page.count("by hand") == 1
    assert "more finding" not in shown(many, top=9)


def test_a_loop_without_backward_and_optimizer_is_not_called_training():
    ops = (OpUse("aten::linear", 500, 20_000.0, 200_000.0, 500),)
    slow = tuple(step(number, data=40, compute=50, idle={"data_wait": 40}) for number in range(3, 8))
    assert "The loop waits for data" in shown(rank(slow, ops=ops))
    assert "Training waits for data" in shown(rank(slow))


def test_how_much_communication_is_hidden_is_a_share_of_it():
    overlapped = rank((step(3, compute=80, comm=40, overlap=30), step(4, compute=80, comm=40, overlap=30)))
    assert "75% of communication hidden" in shown(overlapped)
