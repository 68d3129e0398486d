from __future__ import annotations

import gc
import threading

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.observers.gc_pauses import GcPauses
from tests.support.sessions import Session
from tests.support.watched import watched

pytestmark = pytest.mark.process


@pytest.fixture
def pauses():
    """Listens while the test runs; nothing but the test collects."""
    listening = GcPauses(Session())
    gc.disable()
    gc.callbacks.append(listening.collecting)
    yield listening
    gc.callbacks.remove(listening.collecting)
    gc.enable()


def last(pauses):
    pauses.pulse()
    return pauses.session.events[-1] if pauses.session.events else None


def test_pauses_are_counted_with_the_line_that_most_of_them_ran_below(pauses):
    for _ in range(5):
        gc.collect()
    found = last(pauses)
    assert (found["count"], found["full"]) == (5, 5)
    assert 0 < found["longest_s"] <= found["full_seconds"] <= found["seconds"]
    assert found["at_seconds"] == pytest.approx(found["full_seconds"])
    assert found["at"]["function"] == "test_pauses_are_counted_with_the_line_that_most_of_them_ran_below"


def test_collections_of_young_objects_are_told_apart(pauses):
    gc.collect(0)
    found = last(pauses)
    assert (found["count"], found["full"], found["at"]) == (1, 0, None)


def test_pauses_in_other_threads_are_not_ours(pauses):
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    assert last(pauses) is None


def test_before_the_first_row_nothing_counts(pauses):
    pauses.session.recorder.written = 0
    gc.collect()
    assert last(pauses) is None


def test_what_did_not_grow_is_not_written_again(pauses):
    gc.collect()
    pauses.pulse()
    pauses.pulse()
    assert len(pauses.session.events) == 1


def test_a_script_is_listened_to_from_its_first_step_to_its_end(tmp_path):
    script = """
    import gc, torch
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(30):
        weight.sum().backward()
        optimizer.step()
        gc.collect()
    """
    found = watched(tmp_path, script).ranks[0].of("pauses")[-1]
    assert found["full"] == 30
    assert found["at"]["line"] == 8
