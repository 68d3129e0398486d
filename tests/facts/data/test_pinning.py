from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from perfdoctor.facts.data.pinning import pinning_facts
from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader
from tests.support.records import MS, fetches, rows, update

TORCH = "/venv/lib/python3.11/site-packages/torch"
STANDARD = "/usr/lib/python3.11"
LOADER = loader(workers=10, pin_memory=True)
MAIN = ("main", "<module> (/home/me/train.py:30)")
PINS = (
    "thread Thread-1 (_pin_memory_loop)",
    f"_pin_memory_loop ({TORCH}/utils/data/_utils/pin_memory.py:52)",
)
COPIES = (*PINS, f"pin_memory ({TORCH}/utils/data/_utils/pin_memory.py:57)")
TAKES = (*PINS, f"rebuild_storage_fd ({TORCH}/multiprocessing/reductions.py:546)")
POLLS = (*PINS, f"Connection._poll ({STANDARD}/multiprocessing/connection.py:440)")
FULL = (*PINS, f"Queue.put ({STANDARD}/queue.py:140)", f"Condition.wait ({STANDARD}/threading.py:320)")
FEEDS = ("thread QueueFeederThread", f"Queue._feed ({STANDARD}/multiprocessing/queues.py:270)")


ASKS = (
    *TAKES,
    f"DupFd.detach ({STANDARD}/multiprocessing/resource_sharer.py:57)",
    f"answer_challenge ({STANDARD}/multiprocessing/connection.py:953)",
    f"Connection._recv ({STANDARD}/multiprocessing/connection.py:395)",
)
HANDED = (
    *TAKES,
    f"DupFd.detach ({STANDARD}/multiprocessing/resource_sharer.py:58)",
    f"recvfds ({STANDARD}/multiprocessing/reduction.py:157)",
)
STEPS = rows([update(10)] * 100)  # 1000 to 2000 ms
SPAN = MeasuredSpan.of(boundaries.find(STEPS))


def facts(*stacks, of_loader=LOADER, fed=None, events=()):
    return pinning_facts(RankRecords(0, STEPS, fed, tuple(events), stacks), of_loader, SPAN)


def test_the_thread_is_busy_while_it_takes_batches_and_copies_them():
    found = facts((MAIN, 100), (COPIES, 60), (TAKES, 4), (POLLS, 30), (FULL, 6), (FEEDS, 40))
    assert found.busy == pytest.approx((0.48, 0.64, 0.80))


def test_waiting_until_a_busy_worker_answers_is_no_work_of_its_own():
    assert facts((MAIN, 100), (COPIES, 4), (ASKS, 32), (HANDED, 14)).busy == pytest.approx((0, 0.04, 0.08))


def made(identity: int, **given):
    return {"event": "loader", "id": identity, "num_workers": 2, "pin_memory": True, "dataset": "d", **given}


def begun(identity: int, begin_ms: int):
    return {
        "event": "epoch",
        "loader": identity,
        "index": 0,
        "begin_ns": begin_ms * MS,
        "t_ns": begin_ms * MS,
    }


@pytest.mark.parametrize(
    ("validation", "likely"),
    [({}, 0.48), ({"pin_memory": False}, 0.64), ({"num_workers": 0}, 0.64)],
)
def test_what_other_loaders_pin_is_left_out_by_its_bytes(validation, likely):
    own, theirs = fetches(60, 6), fetches(40, 6, loader=2)
    own["bytes"], theirs["bytes"] = 1000, 500
    end = {"event": "epoch_end", "loader": 1, "index": 0, "t_ns": 1900 * MS, "batches": 60, "wait_ns": 0}
    events = [made(1), made(2, dataset="v", **validation), begun(1, 1000), end, begun(2, 1901)]
    found = facts((MAIN, 100), (COPIES, 64), fed=np.concatenate([own, theirs]), events=events)
    assert found.busy[1] == pytest.approx(likely)
    assert found.busy[2] / found.busy[1] == pytest.approx(1 + 2 / sqrt(64))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(loader(workers=0, pin_memory=True), id="no-workers"),
        pytest.param(loader(workers=2, pin_memory=False), id="no-pinning"),
    ],
)
def test_where_no_such_thread_is_there_is_nothing(given):
    assert facts((MAIN, 100), (COPIES, 60), of_loader=given) is None


def test_few_samples_tell_nothing():
    assert facts((MAIN, 4), (COPIES, 4)) is None
    assert facts() is None


def test_a_thread_that_was_sampled_more_often_is_busy_all_the_time():
    assert facts((MAIN, 10), (COPIES, 12)).busy[1:] == (1.0, 1.0)
