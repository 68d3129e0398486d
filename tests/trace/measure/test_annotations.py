from __future__ import annotations

from perfdoctor.trace.measure.annotations import collect_annotations
from tests.support.traces import Recording


def test_steps_are_found_among_annotations_and_among_operators() -> None:
    made = Recording()
    made.op("ProfilerStep#2", 10, 20)  # torch 1.8
    made.mark("ProfilerStep#1", 0, 10)
    made.mark("ProfilerStep", 0, 10)
    made.op("aten::mm", 1, 2)
    found = collect_annotations(made.trace())
    assert [(step.name, step.begin_ns, step.end_ns) for step in found.steps()] == [
        ("ProfilerStep#1", 0, 10_000), ("ProfilerStep#2", 10_000, 20_000),
    ]  # fmt: skip
    assert found.ops is not None
    assert found.ops.tolist() == [1]


def test_without_disguised_annotations_all_operators_are_real() -> None:
    made = Recording()
    made.op("aten::mm", 1, 2)
    made.mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 4)
    found = collect_annotations(made.trace())
    assert found.ops is None
    assert found.spans(found.dataloader()).total_ns == 4000


def test_a_step_without_a_duration_is_none() -> None:
    made = Recording()
    made.mark("ProfilerStep#1", 0, 10)
    made.mark("ProfilerStep#2", 10, 10)
    assert [step.name for step in collect_annotations(made.trace()).steps()] == ["ProfilerStep#1"]


def test_steps_that_two_threads_mark_or_that_lie_inside_another_count_once() -> None:
    made = Recording()
    for number in range(3):
        made.mark(f"ProfilerStep#{number}", 10 * number, 10 * number + 10.5)  # touches the next
        made.mark(f"ProfilerStep#{number}", 10 * number + 1, 10 * number + 9, thread="2")
    found = [(step.name, step.begin_ns) for step in collect_annotations(made.trace()).steps()]
    assert found == [("ProfilerStep#0", 0), ("ProfilerStep#1", 10_000), ("ProfilerStep#2", 20_000)]
