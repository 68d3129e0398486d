from __future__ import annotations

import numpy as np

from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.source_places import line, places
from tests.support.traces import Recording

NONE = np.array([-1])


def place(made: Recording, at_us: float, op: int = -1) -> Location | None:
    trace = made.trace()
    ops = np.array([op])
    found = places(trace, np.array([0]), np.array([int(at_us * 1000)]), ops, ops)
    return line(trace, int(found.function[0]), int(found.stack[0]))


def test_the_users_innermost_function_around_a_point_in_time_is_its_place() -> None:
    made = Recording()
    made.function("train.py(30): step", 5, 60)
    made.function("torch/_tensor.py(900): item", 8, 50)
    assert place(made, 10) == Location("train.py", 30, "step")
    assert place(made, 70) is None


def test_a_stack_recorded_with_the_operator_names_the_line_itself() -> None:
    made = Recording()
    made.function("train.py(30): step", 5, 60)
    made.op("aten::item", 10, 40, stack=("train.py(37): step",))
    assert place(made, 12, op=0) == Location("train.py", 37, "step")


def test_without_anything_of_python_there_is_no_place() -> None:
    made = Recording()
    made.op("aten::item", 10, 40)
    assert place(made, 12, op=0) is None
