from __future__ import annotations

import pytest

from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.script.run import run_facts
from perfdoctor.model.missing import Missing
from tests.support import job_facts
from tests.support.records import MS, records, rows, update

WHY = Missing("no training step was seen")


def test_a_run_that_never_trained_is_known_all_the_same():
    told = run_facts(records(run={"outcome": "failed", "exit_code": 1}), WHY, WHY)
    assert (told.command, told.exit_code, told.outcome, told.ranks) == (("train.py",), 1, "failed", 1)
    assert not told.on_device


def test_the_accelerator_is_named():
    device = {"event": "device", "backend": "cuda", "name": "Tesla V100"}
    told = run_facts(records(events=[device]), WHY, None)
    assert (told.device, told.on_device) == ("Tesla V100", True)


def test_ranks_are_those_of_the_host():
    run = records(rows([update()] * 3))
    everyone = AllRanks(job_facts.job(2, slow=None))
    assert run_facts(run, run.ranks[0], everyone).ranks == 2
    assert run_facts(run, run.ranks[0], None).ranks == 1


def test_a_run_whose_end_was_not_written_lasted_until_the_last_sample():
    host = [{"t_ns": 900 * MS}, {"t_ns": 2000 * MS}]
    run = records(rows([update()] * 3), host=host, run={"end_ns": None, "begin_ns": 500 * MS})
    assert run_facts(run, run.ranks[0], None).duration_s == 1.5


def test_a_run_without_its_end_and_without_samples_lasted_until_the_last_step():
    steps = rows([update()] * 3)
    begin_ns, end_ns = int(steps["end_ns"][0]), int(steps["end_ns"][-1])
    run = records(steps, host=[], run={"end_ns": None, "begin_ns": begin_ns})
    assert run_facts(run, run.ranks[0], None).duration_s == (end_ns - begin_ns) / 1e9 > 0


MADE = {"event": "loader", "id": 1, "library": "transformers", "own_batch_sampler": False}


@pytest.mark.parametrize(
    ("loader", "trainer"),
    [
        pytest.param(MADE, "transformers", id="the-trainer's"),
        pytest.param({**MADE, "library": None}, None, id="the-script's"),
        pytest.param({**MADE, "library": "accelerate"}, None, id="accelerate"),
        pytest.param({**MADE, "own_batch_sampler": True}, None, id="made-around-the-script's"),
    ],
)
def test_the_trainer_of_transformers_is_known_by_the_loader_that_it_makes(loader, trainer):
    run = records(rows([update()] * 3), events=[loader])
    assert run_facts(run, run.ranks[0], None).trainer == trainer
