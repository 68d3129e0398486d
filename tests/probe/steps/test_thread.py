import threading
import types

import pytest

from perfdoctor.probe.moments import Moments
from perfdoctor.probe.recorder import Recorder
from perfdoctor.probe.session import _Nowhere
from perfdoctor.probe.steps import thread as of_thread
from perfdoctor.wire.step_rows import BACKWARD_DONE, CALL, DATA_WAIT, UPDATE


@pytest.fixture
def training():
    """What this thread and another one ask for the recorder of."""
    recorder = Recorder(_Nowhere())
    session = types.SimpleNamespace(
        recorder=recorder,
        recording=lambda: recorder if recorder.owner == threading.get_ident() else None,
    )
    return of_thread.TrainingThread(session, Moments())


def elsewhere(training, shown):
    """Whether another thread that shows this becomes the one that trains; it ends as it has been told."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(training.recorder(shown)))
    thread.start()
    thread.join()
    return answers[0] is not None


@pytest.mark.parametrize("shown", [CALL, BACKWARD_DONE, UPDATE])
def test_the_first_thread_that_shows_anything_of_training_trains(training, shown):
    assert elsewhere(training, shown)


@pytest.mark.parametrize(
    ("here", "there", "passes"),
    [
        (CALL, CALL, False),
        (CALL, BACKWARD_DONE, True),
        (BACKWARD_DONE, UPDATE, True),
        (UPDATE, BACKWARD_DONE, False),
        (UPDATE, UPDATE, False),
    ],
)
def test_what_shows_more_of_training_outranks_what_was_seen_first(training, here, there, passes):
    assert training.recorder(here) is not None
    assert elsewhere(training, there) is passes
    assert (training.recorder(here) is None) is passes


def test_no_thread_takes_the_place_of_one_that_is_amid_a_phase(training):
    recorder = training.recorder(CALL)
    recorder.enter(DATA_WAIT)
    assert not elsewhere(training, UPDATE)
    recorder.leave()
    assert elsewhere(training, UPDATE)


def test_updates_elsewhere_take_the_place_of_a_thread_that_rests(training, monkeypatch):
    recorder = training.recorder(UPDATE)
    now = recorder.since + of_thread.RESTING_NS + 1
    monkeypatch.setattr(of_thread, "clock", lambda: now)
    assert not elsewhere(training, BACKWARD_DONE)
    assert elsewhere(training, UPDATE)
