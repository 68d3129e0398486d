from __future__ import annotations

import numpy as np

from perfdoctor.trace.measure.operators import details, operators
from perfdoctor.trace.parse.columns import UNKNOWN
from tests.support.traces import Recording


def test_a_call_belongs_to_the_operators_around_it_on_its_thread() -> None:
    made = Recording()
    made.op("aten::linear", 0, 20)
    made.op("aten::addmm", 2, 18)
    made.op("aten::relu", 4, 6, thread="backward")
    made.call("cudaLaunchKernel", 5, 6)
    made.call("cudaLaunchKernel", 25, 26)
    made.call("cudaLaunchKernel", 5, 6, thread="backward")
    found = operators(made.trace(), None, np.array([0, 1, 2]))
    assert found.innermost.tolist() == [1, UNKNOWN, 2]
    assert found.outermost.tolist() == [0, UNKNOWN, 2]


def test_calls_that_were_not_asked_for_stay_unknown() -> None:
    made = Recording()
    made.op("aten::linear", 0, 20)
    made.call("cudaGetDevice", 5, 6)
    assert operators(made.trace(), None, np.array([], int)).innermost.tolist() == [UNKNOWN]


def test_own_time_is_without_the_operators_inside() -> None:
    made = Recording()
    for begin in (0, 100):
        made.op("aten::linear", begin, begin + 20)
        made.op("aten::addmm", begin + 2, begin + 18)
        made.op("aten::t", begin + 3, begin + 4)
    trace = made.trace()
    found = operators(trace, None, np.array([], int))
    assert dict(zip(trace.names, (found.self_ns / 1000).tolist(), strict=True)) == {
        "aten::linear": 8.0, "aten::addmm": 30.0, "aten::t": 2.0,
    }  # fmt: skip
    assert found.count.tolist() == [2, 2, 2]


def test_details_are_found_by_operator() -> None:
    made = Recording()
    made.op("a", 0, 1)
    made.op("aten::mm", 1, 2, shapes=((2, 2), (2, 2)))
    made.op("b", 2, 3)
    made.op("aten::mm", 3, 4, shapes=((4, 4), (4, 4)))
    assert details(made.trace(), np.array([0, 1, 3, UNKNOWN])).tolist() == [UNKNOWN, 0, 1, UNKNOWN]
