import re
import sys
import threading

import pytest

pytest.importorskip("torch")

from perfdoctor.probe import patch
from perfdoctor.probe.profiler import call_count
from perfdoctor.probe.profiler.call_count import CALLS_PER_S, CallCount
from perfdoctor.probe.recorder import Recorder
from perfdoctor.wire.step_rows import DISTURBED

pytestmark = pytest.mark.process


@pytest.fixture
def recorder():
    return Recorder(None)


@pytest.fixture(autouse=True)
def nobody_profiles():
    before = sys.getprofile()  # coverage may measure these tests
    sys.setprofile(None)
    yield
    sys.setprofile(before)


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(call_count, "others_cpu_s", lambda: 0.0)


def nothing():
    return None


def step(times):
    for _ in range(times):
        nothing()
        len("a")


def counted(recorder, times, limit):
    count = CallCount()
    count.begin(recorder, limit)
    step(times)
    return count.end(recorder)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("times", [0, 1, 1000])
def test_calls_of_python_and_of_c_are_counted_alike(recorder, times):
    assert counted(recorder, times, 10_000) == pytest.approx(2 * times, abs=4)
    assert sys.getprofile() is None


@pytest.mark.shows("cost")
@pytest.mark.usefixtures("alone")
def test_counting_ends_inside_the_step_once_the_limit_is_reached(recorder):
    count = CallCount()
    count.begin(recorder, 100)
    step(1000)
    assert sys.getprofile() is None
    calls = count.end(recorder)
    assert 100 < calls < 105
    assert "more than the 100 calls" in count.unpaid(calls)


@pytest.mark.usefixtures("alone")
def test_what_may_be_paid_for_is_not_put_off(recorder):
    count = CallCount()
    count.begin(recorder, 100)
    assert count.unpaid(count.end(recorder)) is None


def test_a_step_that_is_counted_is_disturbed_and_keeps_the_watch_alive(recorder):
    count = CallCount()
    count.disturb(recorder)
    assert (recorder.flags, recorder.held) == (0, False)
    count.begin(recorder, 10)
    assert (recorder.flags, recorder.held) == (DISTURBED, True)
    count.end(recorder)
    assert not recorder.held


@pytest.mark.shows("other-tools")
def test_a_profile_function_of_the_scripts_own_is_left_alone(recorder):
    def own(frame, event, arg):
        return None

    sys.setprofile(own)
    count = CallCount()
    count.begin(recorder, 100)
    assert (sys.getprofile(), count.is_counting, count.end(recorder)) == (own, False, None)
    sys.setprofile(None)
    count.begin(recorder, 100)
    sys.setprofile(own)
    assert count.end(recorder) is None
    assert sys.getprofile() is own
    assert "could not be counted" in count.unpaid(None)


@pytest.mark.shows("own-failure")
def test_an_error_of_ours_ends_the_counting_alone(recorder, monkeypatch):
    monkeypatch.setattr(patch, "turned_off", {})
    monkeypatch.setattr(CallCount, "_count", lambda *event: 1 / 0)
    assert counted(recorder, 10, 100) is None
    assert list(patch.broken()) == [call_count.NAME]


def test_the_cpu_time_of_other_threads_bounds_their_calls(recorder, monkeypatch):
    monkeypatch.setattr(call_count, "others_cpu_s", iter((1.0, 1.001)).__next__)
    assert counted(recorder, 0, 10_000) == pytest.approx(0.001 * CALLS_PER_S, abs=5)


def test_the_cpu_time_of_the_calling_thread_is_not_among_the_others():
    before = call_count.others_cpu_s()
    for _ in range(20):
        re.compile("a" * 50).findall("a" * 100_000)
    assert call_count.others_cpu_s() - before < 0.005


def test_a_thread_that_computes_shows_its_cpu_time():
    begun, over = threading.Event(), threading.Event()

    def compute():
        sum(range(3_000_000))
        begun.set()
        over.wait()

    thread = threading.Thread(target=compute)
    before = call_count.others_cpu_s()
    thread.start()
    begun.wait()
    took = call_count.others_cpu_s() - before
    over.set()
    thread.join()
    assert took > 0.002


def test_a_thread_that_has_ended_took_nothing_that_is_known():
    assert call_count.cpu_s(2**30) == 0
