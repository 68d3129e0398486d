from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest

from perfdoctor.probe.collector_marks import MARKS_MAX, CollectorMarks
from perfdoctor.probe.recorder import clock


@pytest.fixture
def marks():
    """Nothing but the test collects."""
    gc.disable()
    listening = CollectorMarks()
    listening.listen()
    yield listening
    listening.end()
    gc.enable()


def test_each_collection_is_marked_with_its_times_and_its_thread(marks):
    before = clock()
    gc.collect()
    gc.collect(1)
    after = clock()
    thread = threading.Thread(target=gc.collect, args=(0,))
    thread.start()
    number = thread.ident
    thread.join()
    full, young, other = marks.read()
    assert before <= full.begin_ns <= full.end_ns <= young.begin_ns <= young.end_ns <= after
    assert [pause.number for pause in (full, young, other)] == [0, 1, 2]
    assert [pause.generation for pause in (full, young, other)] == [2, 1, 0]
    assert [pause.thread for pause in (full, young, other)] == [threading.get_ident()] * 2 + [number]
    assert marks.read() == []


def test_of_full_collections_the_stack_is_known(marks):
    line = sys._getframe().f_lineno + 1
    gc.collect()
    gc.collect(1)
    full, young = marks.read()
    code, at = full.stacks[0][0]
    assert (code, at) == (sys._getframe().f_code, line)
    assert full.stacks[0][1][0] is sys._getframe().f_back.f_code
    assert young.stacks == ()


def test_what_a_function_holds_lives_no_longer(marks):
    class Held:
        pass

    def hold():
        held = Held()
        gc.collect()
        return weakref.ref(held)

    assert hold()() is None


def test_of_very_many_the_last_ones_are_kept(marks):
    for _ in range(MARKS_MAX + 10):
        gc.collect(0)
    pauses = marks.read()
    assert (len(pauses), pauses[-1].number) == (MARKS_MAX, MARKS_MAX + 9)


def test_it_ends_without_the_callbacks_of_others(marks):
    def theirs(phase, info):
        pass

    gc.callbacks.append(theirs)
    marks.end()
    assert theirs in gc.callbacks
    gc.callbacks.remove(theirs)
    gc.collect()
    assert marks.read() == []
    marks.listen()
    gc.callbacks.clear()  # by the script
    marks.end()


def test_no_function_written_in_python_is_called_back(marks):
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(event))
    gc.collect()
    sys.setprofile(None)
    assert "call" not in seen
    assert len(marks.read()) == 1
