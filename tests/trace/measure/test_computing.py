from __future__ import annotations

import pytest

from perfdoctor.trace.measure.annotations import collect_annotations
from perfdoctor.trace.measure.computing import computing_and_loading
from perfdoctor.trace.measure.measure import measure
from tests.support.traces import MAIN, Recording

LOADING = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def both_us(made: Recording) -> tuple[float, float]:
    """Computing, and loading that keeps somebody waiting."""
    trace = made.trace()
    annotated = collect_annotations(trace)
    spans = computing_and_loading(trace, annotated, annotated.spans(annotated.dataloader()))
    return spans[0].total_ns / 1e3, spans[1].total_ns / 1e3


@pytest.mark.parametrize(("of_ops", "waited"), [(MAIN, 50.0), ("other", 30.0)])
def test_loading_beside_computing_keeps_nobody_waiting(of_ops: str, waited: float) -> None:
    made = Recording()
    made.mark(LOADING, 0, 50)
    made.op("aten::stack", 10, 20)  # of a collate function: loading, too
    made.op("aten::mm", 40 if of_ops == MAIN else 30, 50, thread=of_ops)
    made.op("aten::mm", 60, 90, thread=of_ops)
    assert both_us(made) == ((30.0, 50.0) if of_ops == MAIN else (50.0, waited))


def test_two_threads_that_load_in_turn_hide_each_others_loading() -> None:
    made = Recording()
    for thread, begin in ((MAIN, 0), ("other", 50)):
        made.mark(LOADING, begin, begin + 50, thread=thread)
        made.op("aten::mm", 50 - begin, 100 - begin, thread=thread)
    assert both_us(made) == (100.0, 0.0)


def test_without_a_loader_or_operators_there_is_nothing_of_it() -> None:
    loading, computing = Recording(), Recording()
    loading.mark(LOADING, 0, 50)
    computing.op("aten::mm", 10, 20)
    assert (both_us(loading), both_us(computing)) == ((0.0, 50.0), (10.0, 0.0))


def test_steps_hold_what_was_waited_for() -> None:
    made = Recording()
    made.mark("ProfilerStep#1", 0, 100)
    made.mark(LOADING, 0, 50, thread="other")
    made.op("aten::mm", 20, 90)
    found = measure(made.trace())
    assert (found.dataloader_us, found.steps[0].dataloader_us, found.steps[0].operators_us) == (
        20.0,
        20.0,
        70.0,
    )
