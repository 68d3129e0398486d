from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.diagnosis import trace_report
from perfdoctor.render.notes import all_worded
from tests.support.rank_traces import rank, step, wait


def told(call="hipFree", count=50, idle_ms=40):
    steps = tuple(step(number, idle={"sync": 40}) for number in range(3, 8))
    calls = (wait("aten::conv2d", idle=idle_ms, count=count, call=call),)
    report = trace_report.report([replace(rank(steps), blocking=calls)])
    return [note for note in all_worded(report.notes) if "empty_cache" in note]


def test_memory_that_is_given_back_in_every_step_is_told():
    [note] = told()
    assert "8% of the time" in note
    assert "50 calls of hipFree" in note


@pytest.mark.parametrize("given", [{"call": "cudaStreamSynchronize"}, {"count": 4}, {"idle_ms": 20}])
def test_other_waits_a_start_up_and_little_of_it_are_not(given):
    assert told(**given) == []
