from __future__ import annotations

import gc
import threading

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.collector_marks import MARKS_MAX
from perfdoctor.probe.moments import Moments
from perfdoctor.probe.observers.gc_pauses import GcPauses
from tests.support.sessions import Session
from tests.support.watched import watched

pytestmark = pytest.mark.process


@pytest.fixture
def pauses():
    """Listens while the test runs; nothing but the test collects."""
    listening = GcPauses(Session(), Moments())
    gc.disable()
    listening.pulse()
    yield listening
    listening.end()
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
    pauses.end()
    pauses.session.recorder.written = 0
    pauses.pulse()
    gc.collect()
    pauses.session.recorder.written = 1
    assert last(pauses) is None
    gc.collect()
    assert last(pauses)["count"] == 1


def test_the_first_update_begins_it(pauses):
    pauses.end()
    (first,) = pauses.moments.update
    first(None, 1)
    assert pauses.moments.update == []
    gc.collect()
    assert last(pauses)["count"] == 1


def test_pauses_too_many_to_be_kept_are_counted(pauses):
    for _ in range(MARKS_MAX + 100):
        gc.collect(0)
    gc.collect()
    found = last(pauses)
    assert (found["count"], found["full"]) == (MARKS_MAX + 101, 1)
    gc.collect(0)
    assert last(pauses)["count"] == MARKS_MAX + 102


def test_a_forked_child_that_trains_listens_anew(pauses):
    gc.collect()
    pauses.end()
    pauses.marks.read()
    pauses.pulse()
    gc.collect()
    assert last(pauses)["count"] == 1


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


@pytest.mark.shows("other-signals", "interrupt")
def test_what_a_signal_handler_raises_during_a_collection_reaches_the_script(tmp_path):
    script = """
    import gc, signal, time, torch
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(3):
        weight.sum().backward()
        optimizer.step()
    assert gc.callbacks
    held = [[] for _ in range(300_000)]
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for _ in range(30):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            gc.collect()
            time.sleep(2)
        except KeyboardInterrupt:
            continue
        raise SystemExit("Ctrl-C was lost")
    """
    watched(tmp_path, script)
