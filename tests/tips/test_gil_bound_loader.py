from __future__ import annotations

import pytest

from perfdoctor.facts.predict.step_model import of_loop
from perfdoctor.model.measured import CpuFacts
from perfdoctor.tips.gil_bound_loader import gil_bound_loader as tip
from tests.support import facts
from tests.support.facts import line, stacks, step
from tests.support.load_facts import threads

LOOP = step(other=10, forward=4, backward=6, cpu=20)
QUEUED = stacks(line(0.4, 63, kind="queue"), line(0.1, 80, kind="logging"))
ONE_CORE = facts.cpu(cores=4, busy=1.0)


def judge(of_step=LOOP, of_stacks=QUEUED, work=None, of_cpu: CpuFacts = ONE_CORE):
    return tip(of_stacks, work or threads(), of_cpu, of_loop(of_step, of_cpu))


def test_names_what_the_threads_run_and_how_many_want_to():
    advice = judge()
    assert advice is not None
    assert advice.because == (
        "60% of each step waits for threads that prepare batches in the same process",
        "3.0 of 4 threads want to run Python, but only one can at a time; the process uses 1.0 cores",
        "line 36 takes 70% of their time: `work()`",
    )
    assert advice.at[0].line == 36


def test_the_gain_stays_within_what_computing_leaves():
    found = facts.gain(judge(), of_loop(LOOP, ONE_CORE))
    assert 1 < found.low <= found.likely <= found.high < 20 / 4


def test_a_pool_inside_the_dataset_of_a_loader_without_workers_counts():
    of_step = step(data_wait=10, forward=4, backward=6, cpu=20)
    of = facts.model(of_step, facts.loader(batch=10, cpu=1), ONE_CORE)
    advice = tip(stacks(), threads(blocked=None, awaited=0.5), ONE_CORE, of)
    assert advice is not None
    assert advice.change is not None
    assert advice.change.workers


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            {"of_stacks": stacks(line(0.09, kind="queue")), "work": threads(blocked=0.0)}, id="wait-is-noise"
        ),
        pytest.param({"work": threads(running=0.79)}, id="the-interpreter-is-mostly-free"),
        pytest.param({"work": threads(samples=9)}, id="too-few-samples"),
        pytest.param({"of_cpu": facts.cpu(cores=4, busy=1.5)}, id="threads-run-side-by-side"),
        pytest.param(
            {"of_stacks": stacks(line(0.4, kind="data")), "work": threads(blocked=0.0)},
            id="the-loop-builds-them",
        ),
    ],
)
def test_is_silent(given):
    assert judge(**given) is None
