from __future__ import annotations

from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.results import BlockingCalls
from tests.support.traces import Recording


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


def test_a_wait_is_of_the_direction_that_its_operator_copies() -> None:
    made = Recording()
    made.op("aten::to", 10, 40)
    made.call("cudaMemcpyAsync", 12, 20, correlation=1)
    made.copy("Memcpy DtoH (Device -> Pageable)", 14, 19, correlation=1, bytes=4)
    made.call("cudaStreamSynchronize", 21, 38)
    made.call("cudaDeviceSynchronize", 50, 60)
    ways = {use.call: (use.direction, use.host_memory) for use in found(made)}
    assert ways == {
        "cudaMemcpyAsync": ("DtoH", "pageable"), "cudaStreamSynchronize": ("DtoH", "pageable"),
        "cudaDeviceSynchronize": (None, None),
    }  # fmt: skip


def test_copies_from_pinned_memory_are_told_from_others_at_the_same_operator() -> None:
    made = Recording()
    for number, memory in enumerate(("Pinned", "Pageable")):
        made.op("aten::to", 100 * number, 100 * number + 40)
        made.call("cudaMemcpyAsync", 100 * number + 12, 100 * number + 13, correlation=number + 1)
        made.copy(
            f"Memcpy HtoD ({memory} -> Device)", 100 * number + 14, 100 * number + 19, correlation=number + 1
        )
        made.call("cudaStreamSynchronize", 100 * number + 21, 100 * number + 38)
    waits = [use for use in found(made) if use.call == "cudaStreamSynchronize"]
    assert sorted(use.host_memory or "" for use in waits) == ["pageable", "pinned"]
