from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.predict.step import step_facts, step_model
from perfdoctor.facts.steps.summary import TimedStep
from perfdoctor.model.missing import Missing
from tests.support.facts import cpu, loader, run, step
from tests.support.records import records

STEP = step(data_wait=1, forward=6, backward=9, other=1, cpu=28)
LOADER = loader(workers=2, batch=20, cpu=20)
CPU = cpu(cores=2, busy=2.0, worker_cores=1.0, other_cores=0.5)
MODEL = step_model(records(), run(), TimedStep(STEP), CPU, LOADER)


def test_training_on_the_cpu_loses_what_its_own_workers_take():
    assert MODEL.contention_s > 0
    shared = step_facts(TimedStep(STEP), run(), MODEL, CPU, LOADER)
    assert shared.contention_s == pytest.approx(MODEL.contention_s * 1.0 / 1.5)
    assert replace(shared, contention_s=0.0) == STEP


def test_training_on_a_device_loses_nothing_to_workers_nor_does_an_unknown_machine_tell():
    assert step_facts(TimedStep(STEP), run(device="V100"), MODEL, CPU, LOADER) == STEP
    assert step_facts(TimedStep(STEP), run(), Missing("unknown"), CPU, None) == STEP
    assert step_facts(TimedStep(STEP), run(), MODEL, Missing("unknown"), LOADER) == STEP


def test_what_starting_workers_slow_down_is_lost_to_them_where_it_is_more():
    restarting = replace(LOADER, epochs=21, epoch_slowed_s=0.2)
    slower = step_facts(TimedStep(STEP), run(), MODEL, CPU, restarting)
    assert slower.contention_s == pytest.approx(0.2 * 20 / STEP.wall_s * STEP.mean_s)
    assert slower.contention_s > step_facts(TimedStep(STEP), run(), MODEL, CPU, LOADER).contention_s
    little = replace(restarting, epoch_slowed_s=1e-6)
    assert step_facts(TimedStep(STEP), run(), MODEL, CPU, little).contention_s == pytest.approx(
        MODEL.contention_s * 1.0 / 1.5
    )


def test_each_of_several_ranks_has_its_share_of_the_cores():
    alone, shared = (step_model(records(), run(ranks=ranks), TimedStep(STEP), CPU, None) for ranks in (1, 2))
    assert (alone.cores, shared.cores) == (pytest.approx(1.75), pytest.approx(1.0))
    assert alone.workers == 0
