from __future__ import annotations

import pytest

from perfdoctor.facts.data.pinning import pinning_facts
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader

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


def facts(*stacks, of_loader=LOADER):
    return pinning_facts(RankRecords(0, None, None, (), stacks), of_loader)


def test_the_thread_is_busy_while_it_takes_batches_and_copies_them():
    found = facts((MAIN, 100), (COPIES, 60), (TAKES, 5), (POLLS, 30), (FULL, 5), (FEEDS, 40))
    assert found.busy == pytest.approx(0.65)


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
    assert facts((MAIN, 10), (COPIES, 12)).busy == 1.0
