from __future__ import annotations

import pytest

from perfdoctor.trace.measure.measure import measure
from tests.support.traces import Recording


def lanes(*lengths, begin=0.0, add=lambda made: None):
    """The lanes of a trace whose steps take so many microseconds and whose device works all the time."""
    made, at = Recording(), begin
    for number, length in enumerate(lengths):
        made.mark(f"ProfilerStep#{number}", at, at + length)
        at += length
    made.kernel("gemm", 0, at)
    add(made)
    return measure(made.trace()).lanes


def stretches(found):
    return {lane.kind: lane.stretches_us for lane in found.lanes}


@pytest.mark.parametrize(
    ("lengths", "name"),
    [((900,), "ProfilerStep#0"), ((900, 100), "ProfilerStep#1"), ((10, 400, 100, 200), "ProfilerStep#3")],
)
def test_the_step_of_median_length_is_shown_and_not_the_first_of_several(lengths, name):
    assert lanes(*lengths).name == name


def test_each_kind_of_work_has_a_lane_and_what_reaches_beyond_the_step_is_cut():
    def add(made):
        made.op("aten::mm", 50, 300)
        made.op("aten::mm", 5000, 6000)
        made.call("cudaStreamSynchronize", 600, 2000)
        made.mark("enumerate(DataLoader)#_Next", 100, 200)
        made.kernel("ncclDevKernel_AllReduce", 700, 800, stream=7)
        made.copy("Memcpy HtoD (Pageable -> Device)", 300, 400, stream=9)

    found = lanes(1000, begin=100, add=add)
    assert found.span_us == 1000
    assert stretches(found) == {
        "loading": ((0, 100),),
        "operators": ((0, 200),),
        "blocked": ((500, 1000),),
        "compute": ((0, 1000),),
        "communication": ((600, 700),),
        "copying": ((200, 300),),
    }


def test_stretches_that_the_eye_cannot_tell_apart_are_one():
    def add(made):
        for number in range(500):
            made.op("aten::add_", 2 * number, 2 * number + 1)
        made.op("aten::mm", 2000, 2500)

    found = lanes(10_000, add=add)
    assert stretches(found)["operators"] == ((0, 999), (2000, 2500))
    assert {lane.kind: lane.busy_us for lane in found.lanes}["operators"] == 1000


def test_without_a_step_or_a_device_there_are_no_lanes():
    assert lanes() is None
    made = Recording()
    made.mark("ProfilerStep#0", 0, 10)
    made.op("aten::mm", 0, 5)
    assert measure(made.trace()).lanes is None
