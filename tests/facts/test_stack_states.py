from __future__ import annotations

import pytest

from perfdoctor.facts.stack_states import state_of
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.recorded import RecordedStack
from tests.support.records import no_source, source_of

USER = "main (/home/me/train.py:{})"
STANDARD = "{} (/usr/lib/python3.11/{}.py:9)"
TORCH = "{} (/x/lib/python3.11/site-packages/torch/{}.py:9)"
SOURCES = Sources(source_of(train="x = model(y)\ntime.sleep(1)\nwith lock:\n    pass"))


def state(*frames, thread="main", phase="other", sources=SOURCES):
    return state_of(RecordedStack(thread, phase, frames, 1), sources)


@pytest.mark.parametrize(
    "inner",
    [
        STANDARD.format("Condition.wait", "threading"),
        STANDARD.format("Connection._poll", "multiprocessing/connection"),
        STANDARD.format("Connection._recv", "multiprocessing/connection"),
        STANDARD.format("_PollLikeSelector.select", "selectors"),
        STANDARD.format("socket.accept", "socket"),
        TORCH.format("synchronize", "cuda/__init__"),
        TORCH.format("barrier", "distributed/distributed_c10d"),
        USER.format(2),
        USER.format(3),
    ],
)
def test_these_wait(inner):
    assert state(USER.format(1), inner) == "waiting"


@pytest.mark.parametrize(
    "inner",
    [
        USER.format(1),
        TORCH.format("linear", "nn/functional"),
        TORCH.format("is_available", "cuda/__init__"),
        STANDARD.format("Queue.get", "multiprocessing/queues"),  # unpickles
        STANDARD.format("Connection._send", "multiprocessing/connection"),
        "no frame at all",
    ],
)
def test_these_run(inner):
    assert state(USER.format(1), inner) == "running"


def test_whatever_is_inside_a_gradient_sync_of_libraries_waits_for_other_ranks():
    assert state(USER.format(1), TORCH.format("all_reduce", "x"), phase="grad_sync") == "waiting"
    assert state(USER.format(1), phase="grad_sync") == "running"


@pytest.mark.parametrize("thread", ["worker 7", "thread tqdm_monitor", "worker 7 thread QueueFeederThread"])
def test_a_thread_without_the_users_code_above_its_wait_is_idle(thread):
    wait = STANDARD.format("Condition.wait", "threading")
    assert state(wait, thread=thread) == "idle"
    assert state(USER.format(1), wait, thread=thread) == "waiting"
    assert state(wait) == "waiting"  # the training thread is never without work


def test_without_the_source_a_line_of_the_users_runs_and_no_frames_at_all_too():
    assert state(USER.format(2), sources=Sources(no_source)) == "running"
    assert state() == "running"
