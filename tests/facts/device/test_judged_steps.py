from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.device.judged_steps import judged_steps, left_out
from perfdoctor.model.note import Note
from perfdoctor.trace.measure.measure import measure
from tests.support.rank_traces import host_only, rank, step
from tests.support.traces import Recording

FIRST_IS_LONG = (step(1, span=300), *(step(n) for n in range(2, 6)))


def late(first_us: float) -> Recording:
    """Six steps of 100 us, the first of `first_us`, whose device is behind by the 100 us of a kernel before them."""
    made = Recording()
    made.launched("gemm", 0, 10, first_us + 100)
    for number in range(6):
        begin = first_us + 100 * (number - 1) if number else 0
        made.mark(f"ProfilerStep#{number}", begin, first_us + 100 * number)
        made.launched("gemm", begin + 1, first_us + 100 * (number + 1), first_us + 100 * (number + 2) - 1)
    return made


def test_a_first_step_that_takes_the_host_longer_warms_up():
    assert left_out(rank(FIRST_IS_LONG)) == [Note("warm-up-step", {"step": "ProfilerStep#1"})]
    assert left_out(replace(host_only(), steps=FIRST_IS_LONG)) == left_out(rank(FIRST_IS_LONG))


def test_one_that_takes_the_device_alone_longer_ends_while_the_device_is_busy():
    found = measure(late(first_us=100).trace())
    assert [round(one.times.span_us, -1) for one in found.steps] == [300, 100, 100, 100, 100, 100]
    assert judged_steps(found.steps) == found.steps[1:]
    assert left_out(found) == [Note("lagging-step", {"step": "ProfilerStep#0"})]


def test_one_that_takes_both_longer_warms_up():
    found = measure(late(first_us=300).trace())
    assert left_out(found) == [Note("warm-up-step", {"step": "ProfilerStep#0"})]


def test_a_last_step_without_work_is_named_too():
    idle = replace(step(6, span=1), begun=0)
    assert left_out(rank((*FIRST_IS_LONG, idle))) == [
        Note("warm-up-step", {"step": "ProfilerStep#1"}),
        Note("idle-step", {"step": "ProfilerStep#6"}),
    ]


def test_without_marks_there_are_no_steps():
    assert left_out(replace(rank(), steps=())) == []
