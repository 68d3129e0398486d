from __future__ import annotations

import pytest

from perfdoctor.model.batch import Stage
from perfdoctor.tips.serial_limit import serial_limit as tip
from tests.support import facts
from tests.support.facts import cpu, line, loader, step
from tests.support.load_facts import batch, cost

STARVED = step(data_wait=90, forward=3, backward=7)
LOADER = loader(workers=2, batch=190, cpu=7)
IDLE = cpu(cores=4, busy=0.3)


def locked(share=0.5, kind="lock"):
    return batch(
        cost(Stage.WAITING, share, line(share, 41, text="with self.lock:"), kind=kind),
        cost(Stage.WAITING, 1 - share, line(1 - share, 24), kind="sleep"),
        ms=190,
        locked=(line(1 - share, 42, text="trace = self.archive.read(number)"),),
    )


def test_names_the_lock_and_what_runs_while_it_is_held():
    advice = tip(STARVED, LOADER, locked(), IDLE)
    assert advice is not None
    assert advice.because == (
        "90% of each step waits for the next batch, 0.3 of 4 cores are busy",
        "50% of a batch's 190.0 ms is waiting for a lock (line 41)",
        "line 42 runs while it is held, 50% of a batch",
    )
    assert [at.line for at in advice.at] == [41, 42]


def test_may_bring_nothing_where_what_is_locked_is_the_limit():
    found = facts.gain(tip(STARVED, LOADER, locked(), IDLE), facts.model(STARVED, LOADER, IDLE))
    assert found.low == pytest.approx(1.0, abs=0.05)
    assert 1.2 < found.likely <= found.high < 10


@pytest.mark.parametrize(
    ("of_step", "of_batch", "of_cpu"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), locked(), IDLE, id="wait-is-noise"),
        pytest.param(STARVED, locked(0.24), IDLE, id="the-lock-is-mostly-free"),
        pytest.param(STARVED, locked(), cpu(cores=4, busy=3.7), id="cores-are-saturated"),
        pytest.param(STARVED, locked(kind="thread"), IDLE, id="it-waits-for-a-thread-that-works"),
    ],
)
def test_is_silent(of_step, of_batch, of_cpu):
    assert tip(of_step, LOADER, of_batch, of_cpu) is None
