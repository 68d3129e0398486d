from __future__ import annotations

import pytest

from perfdoctor.trace.measure.measure import measure
from tests.support.traces import Recording


def recording(*spans: float) -> Recording:
    """Steps of these lengths, each with a kernel of 2 us of its own name."""
    made, begin = Recording(), 0.0
    for number, span in enumerate(spans):
        made.mark(f"ProfilerStep#{number}", begin, begin + span)
        made.op("aten::mm", begin + 1, begin + 4)
        made.launched(f"kernel{number}", begin + 2, begin + 3, begin + 5)
        begin += span
    return made


def test_what_a_step_that_warms_up_ran_is_not_counted() -> None:
    found = measure(recording(100, 20, 20, 20).trace())
    assert len(found.steps) == 4
    assert {kernel.name for kernel in found.kernels} == {"kernel1", "kernel2", "kernel3"}
    assert [op.count for op in found.ops] == [3]


def test_operators_and_calls_that_begin_in_a_step_are_counted() -> None:
    made = recording(20, 20, 20)
    made.mark("ProfilerStep#3", 60, 70)
    found = measure(made.trace())
    assert [step.begun for step in found.steps] == [2, 2, 2, 0]
    assert sum(kernel.us for kernel in found.kernels) == pytest.approx(6)
