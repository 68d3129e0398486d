from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.data.worker_starts import slowed_s, starting
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.wire.events.loaders import EpochEvent
from tests.support.records import rows, update

MS = 1_000_000
COUNT, EVERY = 60, 6  # steps, and those of an epoch


def steps(longer_ms=30.0, first_ms=0.0):
    """Steps that train 10 ms, and the first of each epoch `longer_ms` more, after a wait of 5 ms."""
    described = []
    for n in range(COUNT):
        more = longer_ms if n % EVERY == 0 else 0.0
        more += first_ms if n == 0 else 0.0
        forward = {"data_wait": 5, "forward": 4 + more, "backward": 4, "optimizer_ns": 2}
        described.append(update(15 + more, **forward))
    return find(rows(described))


def epochs(found, workers):
    """An epoch at each of these steps; its first batch comes within the wait."""
    for index, begin_ns in enumerate(found.begin_ns[::EVERY].tolist(), 1):
        waits = {"startup_ns": 3 * MS, "first_wait_ns": 1 * MS}
        yield EpochEvent(loader=1, index=index, begin_ns=begin_ns, workers=workers(index), **waits)


def slowed(found, workers):
    return slowed_s(list(epochs(found, workers)), found)


def new(index):
    return [2 * index, 2 * index + 1]


def test_the_steps_that_take_the_first_batch_of_new_workers_are_told():
    found = steps()
    told = starting(list(epochs(found, new)), found.begin_ns, found.end_ns)
    assert np.flatnonzero(told).tolist() == list(range(0, COUNT, EVERY))
    once = starting(list(epochs(found, lambda index: [1, 2])), found.begin_ns, found.end_ns)
    assert np.flatnonzero(once).tolist() == [0]
    assert not starting([], found.begin_ns, found.end_ns).any()


def test_what_such_steps_train_longer_is_measured_against_the_usual_one():
    assert slowed(steps(), new) == pytest.approx(0.030)


def test_the_first_step_of_all_does_not_count():
    assert slowed(steps(first_ms=500.0), new) == pytest.approx(0.030)


@pytest.mark.parametrize(
    "workers",
    [pytest.param(lambda index: [1, 2], id="they-live-on"), pytest.param(lambda index: [], id="none")],
)
def test_without_new_workers_it_is_nothing(workers):
    assert slowed(steps(), workers) == 0.0


def test_steps_that_train_no_longer_are_not_credited():
    assert slowed(steps(longer_ms=-1.0), new) == 0.0
