import _thread
import signal
import sys
import threading
import time

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.profiler import time_limit
from perfdoctor.probe.profiler.time_limit import TimeLimit

pytestmark = pytest.mark.process
LATE_S = 20.0  # for what comes soon on any machine


@pytest.fixture(autouse=True)
def recording():
    """A profile function in place of torch's."""
    before = sys.getprofile()
    sys.setprofile(record)
    yield
    sys.setprofile(before)


def record(frame, event, arg):
    return None


def other(frame, event, arg):
    return None


def loop(until):
    """Whether it came about, in a loop that never leaves Python."""
    end = time.perf_counter() + LATE_S
    while not until():
        if time.perf_counter() > end:
            return False
    return True


@pytest.mark.shows("cost")
def test_a_loop_that_goes_on_for_too_long_is_recorded_no_more_in_its_midst():
    limit = TimeLimit(0.01)
    assert loop(lambda: sys.getprofile() is None)
    assert limit.is_over
    limit.end()


def test_a_step_that_ends_in_time_leaves_neither_a_thread_nor_a_trace():
    threads = _thread._count()
    limit = TimeLimit(LATE_S)
    assert loop(lambda: _thread._count() == threads + 1)
    limit.end()
    assert loop(lambda: _thread._count() == threads)
    assert not limit.is_over
    assert sys.getprofile() is record
    assert threading.active_count() == len(threading.enumerate())


def test_time_in_which_the_main_thread_waits_does_not_count():
    limit = TimeLimit(0.1)
    time.sleep(0.4)
    assert not limit.is_over
    assert loop(lambda: limit.is_over)
    limit.end()


def test_the_shortest_limit_is_waited_for_as_well():
    limit = TimeLimit(0.0)
    assert loop(lambda: limit.is_over)
    limit.end()


def test_where_cpu_time_is_not_known_the_clock_counts(monkeypatch):
    monkeypatch.setattr(time_limit, "cpu_s", lambda thread: 0.0)
    limit = TimeLimit(0.01)
    time.sleep(0.1)
    assert loop(lambda: limit.is_over)
    limit.end()


def test_what_comes_after_the_end_is_left_alone():
    limit = TimeLimit(LATE_S)
    limit.end()
    limit.cut()
    assert not limit.is_over
    assert sys.getprofile() is record


@pytest.mark.shows("other-tools")
def test_a_profile_function_that_the_script_put_in_its_place_stays():
    limit = TimeLimit(LATE_S)
    sys.setprofile(other)
    limit.cut()
    assert not limit.is_over
    assert sys.getprofile() is other
    limit.end()


def test_nothing_is_cut_where_nothing_was_recorded():
    sys.setprofile(None)
    limit = TimeLimit(LATE_S)
    limit.cut()
    assert not limit.is_over
    limit.end()


@pytest.mark.shows("interrupt")
def test_an_interrupt_that_comes_just_then_reaches_the_script():
    def interrupted():
        raise KeyboardInterrupt

    received = []
    before = signal.signal(signal.SIGINT, lambda *what: received.append(what))
    try:
        assert time_limit._between_instructions(interrupted)(None) == 0
        assert loop(lambda: received)
    finally:
        signal.signal(signal.SIGINT, before)
