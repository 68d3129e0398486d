from __future__ import annotations

from perfdoctor.model import Location
from perfdoctor.trace.measure import measure
from perfdoctor.trace.results import BlockingCalls
from tests.traces import Recording


def found(made: Recording) -> list[BlockingCalls]:
    return list(measure(made.trace()).blocking)


def test_a_call_is_told_by_its_outermost_operator_and_innermost_annotation() -> None:
    made = Recording()
    made.mark("ProfilerStep#1", 0, 100)
    made.mark("## metrics ##", 5, 50)
    made.op("aten::item", 10, 40)
    made.op("aten::_local_scalar_dense", 11, 39)
    made.call("cudaStreamSynchronize", 12, 38)
    (use,) = found(made)
    assert use == BlockingCalls("cudaStreamSynchronize", "aten::item", None, "## metrics ##", 1, 26.0, 0.0)


def test_the_line_is_the_users_innermost_function_around_the_call() -> None:
    made = Recording()
    made.function("train.py(1): <module>", 0, 100)
    made.function("train.py(30): step", 5, 60)
    made.function("train.py(80): other", 61, 90)
    made.function("torch/_tensor.py(900): item", 8, 50)
    made.call("cudaStreamSynchronize", 12, 38)
    assert found(made)[0].at == Location("train.py", 30, "step")


def test_a_recorded_stack_says_the_line_of_the_call_itself() -> None:
    made = Recording()
    made.function("train.py(30): step", 5, 60)
    made.op("aten::item", 10, 40, stack=("torch/_tensor.py(9): item", "train.py(37): step"))
    made.call("cudaStreamSynchronize", 12, 38)
    assert found(made)[0].at == Location("train.py", 37, "step")


def test_an_inner_operator_without_a_stack_takes_that_of_the_outer() -> None:
    made = Recording()
    made.op("aten::to", 10, 40, stack=("train.py(44): <module>",))
    made.op("aten::copy_", 11, 39, shapes=((3, 4),))
    made.call("cudaStreamSynchronize", 12, 38)
    assert found(made)[0].at == Location("train.py", 44, "<module>")


def test_calls_from_the_same_place_are_added_up_longest_first() -> None:
    made = Recording()
    for begin in (0, 20):
        made.op("aten::item", begin, begin + 9)
        made.call("cudaStreamSynchronize", begin + 1, begin + 5)
    made.call("cudaDeviceSynchronize", 40, 70)
    assert [(use.call, use.op, use.count, use.us) for use in found(made)] == [
        ("cudaDeviceSynchronize", None, 1, 30.0), ("cudaStreamSynchronize", "aten::item", 2, 8.0),
    ]  # fmt: skip


def test_another_thread_caused_nothing() -> None:
    made = Recording()
    made.op("aten::item", 10, 40, thread="other")
    made.function("train.py(30): step", 5, 60, thread="other")
    made.call("cudaStreamSynchronize", 12, 38)
    assert (found(made)[0].op, found(made)[0].at) == (None, None)
