from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.data.handing_over import HandOverFacts
from perfdoctor.facts.data.pinning import PinningFacts
from perfdoctor.facts.predict.step import step_facts, step_model
from perfdoctor.facts.predict.step_model import BEST, LIKELY
from perfdoctor.facts.steps.summary import TimedStep
from perfdoctor.model.change import Change, Estimate
from perfdoctor.model.missing import Missing
from tests.support.facts import cpu, loader, run, step
from tests.support.records import records

STEP = step(data_wait=1, forward=6, backward=9, other=1, cpu=28)
LOADER = loader(workers=2, batch=20, cpu=20)
CPU = cpu(cores=2, busy=2.0, worker_cores=1.0, other_cores=0.5)
MODEL = step_model(records(), run(), TimedStep(STEP), CPU, LOADER, None)


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


@pytest.mark.parametrize(
    ("outcome", "given", "steps_paying"),
    [
        ("ok", {}, 60),
        ("stopped", {}, 600),
        ("signalled", {"items": 32 * 500}, 600),
        ("stopped", {"items": 32 * 6000}, 6000),  # the epoch that it was in goes on for longer
        ("stopped", {"items": 16 * 6000, "batch_size": None, "samples": 16 * 500}, 6000),  # of unlike sizes
        ("stopped", {"built": 2}, 30),  # in each epoch, as was seen
    ],
)
def test_a_training_that_was_to_go_on_pays_for_starting_workers_over_all_of_it(outcome, given, steps_paying):
    timed = TimedStep(step(count=60, data_wait=20, forward=10, cpu=30))
    fresh = loader(batch=20, start_method="spawn", **given)
    model = step_model(records(), run(outcome=outcome), timed, cpu(), fresh, None)
    likely_s, least_s = (
        model.step_with(1, case) - replace(model, starts_per_step=0.0).step_with(1, case)
        for case in (LIKELY, BEST)
    )
    assert likely_s == pytest.approx(2.5 / steps_paying)
    assert (least_s == 0.0) == (steps_paying > 60)


def test_of_more_workers_than_any_machine_starts_there_is_no_model():
    found = step_model(records(), run(), TimedStep(STEP), CPU, replace(LOADER, num_workers=10**12), None)
    assert isinstance(found, Missing)
    assert found.reason == "no loader has 1,000,000,000,000 workers"


def test_each_of_several_ranks_has_its_share_of_the_cores():
    alone, shared = (
        step_model(records(), run(ranks=ranks), TimedStep(STEP), CPU, None, None) for ranks in (1, 2)
    )
    assert (alone.cores, shared.cores) == (pytest.approx(1.75), pytest.approx(1.0))
    assert alone.workers == 0


def test_the_thread_that_pins_batches_is_a_floor_of_the_step():
    late = TimedStep(step(data_wait=15, forward=3, cpu=3))
    of_loader = loader(workers=10, batch=60, pin_memory=True)
    with_floor, without = (
        step_model(records(), run(device="V100"), late, cpu(cores=16), of_loader, pinning)
        for pinning in (PinningFacts((1.0, 1.0, 1.0)), Missing("no stacks"))
    )
    assert with_floor.error == pytest.approx(0.0)
    assert without.error < -0.5


def test_batches_that_are_long_on_their_way_are_a_part_of_the_step_that_can_go():
    timed = TimedStep(step(data_wait=44, forward=49, cpu=90))
    of_loader = loader(workers=2, batch=2)
    told, pinned, untold = (
        step_model(records(), run(), timed, cpu(cores=8), of_loader, None, None, handing)
        for handing in (HandOverFacts(0.95, 500, False), HandOverFacts(0.95, 500, True), Missing("no stacks"))
    )
    assert told.transfer_s == pytest.approx(0.95 * 0.044)
    assert abs(told.error) < 0.05 < -0.3 - untold.error
    assert pinned == untold
    assert told.gain(Change(handed=Estimate(0.5, 0.9, 0.9))).likely == pytest.approx(
        93 / (93 - 0.9 * 42), rel=0.05
    )
