from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfdoctor.facts.data.loader import loader_facts
from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.records import MS, fetches, rows, update

STEPS = rows([update(10)] * 100)  # 1000 to 2000 ms
MADE = {
    "event": "loader",
    "id": 1,
    "num_workers": 2,
    "prefetch_factor": 2,
    "dataset": "train.Data",
    "batch_size": 32,
}
MADE["at"] = {"file": "train.py", "line": 9, "function": "main"}


def epoch(loader=1, index=0, begin=1000, startup=40.0, first=20.0, **more):
    waits = {"startup_ns": startup * MS, "first_wait_ns": first * MS}
    times = {"begin_ns": begin * MS, "t_ns": (begin + 70) * MS}
    return {"event": "epoch", "loader": loader, "index": index, **times, **waits, **more}


def ended(loader=1, index=0, t=1500, batches=50, wait=98.0):
    return {
        "event": "epoch_end",
        "loader": loader,
        "index": index,
        "t_ns": t * MS,
        "batches": batches,
        "wait_ns": wait * MS,
    }


def facts(*events, loader=None):
    found = boundaries.find(STEPS)
    assert found is not None
    return loader_facts(RankRecords(0, STEPS, loader, tuple(events)), MeasuredSpan.of(found), found)


def test_the_cost_of_a_batch_is_what_its_maker_spends():
    found = facts(MADE, epoch(), loader=fetches(100, read_ms=6, cpu_ms=4))
    assert (found.batch_s, found.batch_cpu_s, found.batch_p95_s) == pytest.approx((0.006, 0.004, 0.006))
    assert (found.num_workers, found.at.line, found.dataset) == (2, 9, "train.Data")


def test_the_bytes_that_a_batch_reads_are_those_of_most_batches():
    made = fetches(100, read_ms=6)
    made["file_bytes"], made["batches"][50:] = 4_000_000, 2
    made["file_bytes"][50:] *= 2  # rows of two batches
    made["file_bytes"][0] = 3_000_000_000  # an archive that the first batch reads whole
    assert facts(MADE, epoch(), loader=made).file_bytes == 4_000_000


def test_where_nobody_counts_what_is_read_it_is_not_known():
    made = fetches(100, read_ms=6)
    assert facts(MADE, epoch(), loader=made).file_bytes is None
    before = made[[name for name in made.dtype.names if name != "file_bytes"]]
    assert facts(MADE, epoch(), loader=before).file_bytes is None


def test_a_loader_that_a_library_makes_around_the_users_is_told_by_the_users_line():
    prepared = {"own_batch_sampler": True, "at": {"file": "train.py", "line": 12, "function": "main"}}
    validation = {**MADE, "id": 2, "at": {**MADE["at"], "line": 10}}
    around = [{**MADE, **prepared, "id": identity} for identity in (3, 4)]
    fed = fetches(100, 6, loader=3)
    assert facts(MADE, validation, *around, epoch(3), loader=fed).at.line == 9
    assert facts(MADE, *around, epoch(3), loader=fed).at.line == 12  # which of them is made around it?
    others = {**MADE, "id": 1, "dataset": "train.Other"}
    assert facts(others, around[0], epoch(3), loader=fed).at.line == 12


def test_what_the_training_process_prepares_for_validation_is_cpu_time_of_its_own():
    validation = {**MADE, "id": 2, "num_workers": 0, "dataset": "train.Validation"}
    events = [MADE, validation, epoch(), ended(), epoch(2, begin=1501), ended(2, t=1900)]
    own = fetches(50, 6, loader=1, worker=0)
    theirs = fetches(40, 9, cpu_ms=5, loader=2, begin_ms=1501)
    assert facts(*events, loader=np.concatenate([own, theirs])).others_cpu_s == pytest.approx(
        40 * 0.005 / 100
    )
    theirs["worker"] = 1
    assert facts(*events, loader=np.concatenate([own, theirs])).others_cpu_s == 0.0


def test_two_epochs_tell_stall_steady_wait_and_batches_per_step():
    events = [epoch(), ended(), epoch(index=1, begin=1500, startup=30, first=10), ended(index=1, t=2000)]
    found = facts(MADE, *events, loader=fetches(104, 6))
    assert found.epochs == 2
    assert found.epoch_start_s == pytest.approx(0.040)  # the first one also pays for what is done once
    assert found.steady_wait_s == pytest.approx(0.002)
    assert found.epoch_wait_s == pytest.approx(0.001)
    assert found.batches_per_step == 1.0


def test_the_training_loader_is_the_one_inside_whose_epochs_steps_end():
    validation = {**MADE, "id": 2, "num_workers": 0, "dataset": "train.Validation"}
    events = [
        MADE,
        validation,
        epoch(),
        ended(),
        epoch(2, begin=1501, startup=0, first=5),
        ended(2, t=1505, batches=400),
    ]
    both = np.concatenate([fetches(50, 6, loader=1), fetches(400, 9, loader=2, every_ms=0.01)])
    found = facts(*events, loader=both)
    assert found.dataset == "train.Data"
    assert found.loaders == 2
    assert found.other_wait_s == pytest.approx((0.005 + 0.098) / 100)


def test_a_validation_that_leaves_its_loader_does_not_train_until_the_next_one():
    validation = {**MADE, "id": 2, "dataset": "train.Validation"}
    events = [MADE, validation, epoch(), ended(t=2000, batches=100)]
    for index in range(5):
        begin = 1001 + 200 * index
        events.append(epoch(2, index=index, begin=begin))
        left = {"end_wait_ns": None, "last_ns": (begin + 5) * MS}
        events.append({**ended(2, index=index, t=begin + 200, batches=3), **left})
    both = np.concatenate([fetches(100, 1, loader=1), fetches(15, 90, loader=2, every_ms=60)])
    assert facts(*events, loader=both).dataset == "train.Data"


def test_waits_at_the_ends_of_epochs_are_known_apart():
    ends = [{**ended(index=index), "end_wait_ns": wait * MS} for index, wait in enumerate((4.0, 8.0))]
    made = (MADE, epoch(), epoch(index=1))
    assert facts(*made, *ends, loader=fetches(100, 6)).epoch_end_s == pytest.approx(0.006)
    assert facts(*made, ended(), loader=fetches(100, 6)).epoch_end_s is None


def test_workers_that_stop_after_the_loop_has_left_their_epoch_are_waited_for_as_well():
    made = (MADE, epoch(workers=[7]), epoch(index=1, workers=[8]))
    stops = [{"event": "workers_end", "workers": [pid], "wait_ns": 3 * MS} for pid in (7, 8)]
    left = [{**ended(index=index), "end_wait_ns": None} for index in (0, 1)]
    assert facts(*made, *left, *stops, loader=fetches(100, 6)).epoch_end_s == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("how", "seconds"), [({}, 4 * 0.047), ({"num_workers": 0}, 0.0), ({"persistent_workers": True}, 0.0)]
)
def test_workers_of_other_loaders_that_start_again_are_known_apart(how, seconds):
    events = [MADE, {**MADE, "id": 2, **how}, epoch(), ended(t=2000, batches=100)]
    for index in range(5):
        begin = 1001 + 200 * index
        events.append(epoch(2, index=index, begin=begin))
        events.append({**ended(2, index=index, t=begin + 20, batches=3), "end_wait_ns": 7 * MS})
    found = facts(*events, loader=fetches(100, 6))
    assert found.others_restart_s == pytest.approx(seconds / 100)
    assert [(each.passes, each.at.line, each.each_s) for each in found.restarting] == (
        [(5, 9, pytest.approx(0.047))] if seconds else []
    )
    assert found.other_wait_s == pytest.approx(5 * (0.04 + 0.02 + 0.098 + 0.007) / 100)


def test_a_first_batch_that_other_loaders_workers_are_late_with_is_part_of_their_restart():
    events = [MADE, {**MADE, "id": 2}, epoch(), ended(t=2000, batches=100)]
    for index in range(3):
        begin = 1001 + 300 * index
        events.append(epoch(2, index=index, begin=begin, startup=5, first=90))
        events.append({**ended(2, index=index, t=begin + 120, batches=3), "end_wait_ns": 0})
    both = np.concatenate([fetches(100, 6), fetches(9, 10, loader=2)])
    assert facts(*events, loader=both).others_restart_s == pytest.approx(2 * (0.005 + 0.090 - 0.010) / 100)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_a_loader_that_is_made_for_each_pass_end_with_it(persistent):
    events = [MADE, epoch(), ended(t=2000, batches=100)]
    for number in range(2, 6):
        begin = 1001 + 200 * number
        line = {**MADE["at"], "line": 14}
        events.append({**MADE, "id": number, "persistent_workers": persistent, "at": line})
        events.append(epoch(number, begin=begin - 400, startup=5, first=0))
        events.append({**ended(number, t=begin - 380, batches=3), "end_wait_ns": 0})
    (found,) = facts(*events, loader=fetches(100, 6)).restarting
    assert (found.at.line, found.built, found.passes, found.each_s) == (14, 4, 4, pytest.approx(0.005))
    assert found.per_step_s == pytest.approx(3 * 0.005 / 100)
    assert found.anew


def test_loaders_of_one_line_that_live_on_restart_nothing():
    same = {**MADE, "persistent_workers": True, "at": {**MADE["at"], "line": 14}}
    events = [MADE, {**same, "id": 2}, {**same, "id": 3}, epoch(), ended(t=2000, batches=100)]
    for index in range(6):
        at = {"loader": 2 + index % 2, "index": index // 2}
        over = {**ended(**at, t=1205 + 100 * index, batches=3), "end_wait_ns": 0}
        events += [epoch(**at, begin=1201 + 100 * index), over]
    assert facts(*events, loader=fetches(100, 6)).restarting == ()


def test_workers_start_when_their_epoch_does():
    born = {"event": "worker", "pid": 77, "first_fetch_ns": 1030 * MS}
    found = facts(MADE, epoch(workers=[77]), born, loader=fetches(10, 6))
    assert found.worker_start_s == pytest.approx(0.030)


def test_accumulation_takes_several_batches_a_step():
    found = facts(MADE, epoch(), ended(t=2000, batches=400), loader=fetches(400, 1, every_ms=2.5))
    assert found.batches_per_step == 4.0


def test_without_an_end_of_epoch_batches_prepared_ahead_are_not_counted():
    found = facts(MADE, epoch(), loader=fetches(104, 6, every_ms=9))
    assert found.batches_per_step == 1.0


def test_a_loader_that_feeds_no_step_but_the_first_is_no_training_loader():
    fed = boundaries.find(rows([update(10, batches=1), *[update(10)] * 99]))
    rank = RankRecords(0, None, fetches(1, 6), (MADE, epoch()))
    assert loader_facts(rank, MeasuredSpan.of(fed), fed) is None


def test_no_loader_is_an_answer_and_no_batch_a_reason():
    assert facts() is None
    assert facts(MADE) == Missing("no batch of a DataLoader was recorded")
    assert facts(MADE, loader=np.zeros(3, dtype=[("end_ns", "<i8")])) == Missing(
        "no batch of a DataLoader was recorded"
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_its_line_makes_for_each_epoch_is_one_loader(workers):
    made = [
        {**MADE, "id": each, "num_workers": workers, "persistent_workers": workers > 0}
        for each in (1, 2, 3, 4)
    ]
    times = [(1, 1000, 1240), (2, 1250, 1490), (3, 1500, 1740), (4, 1750, 2000)]
    epochs = [epoch(each, begin=begin, startup=8, first=2) for each, begin, _ in times]
    ends = [{**ended(each, t=t, batches=25, wait=24), "end_wait_ns": 0} for each, _, t in times]
    fed = np.concatenate([fetches(25, 6, loader=each) for each in (1, 2, 3, 4)])
    found = facts(*made, *epochs, *ends, loader=fed)
    assert (found.built, found.epochs, found.batches, found.batches_per_step) == (4, 4, 100, 1.0)
    assert found.other_wait_s == 0.0
    assert found.epoch_wait_s == pytest.approx(4 * 0.010 / 100)
    assert found.steady_wait_s == pytest.approx(0.001)
    assert found.anew
    assert not found.persistent_workers  # of each loader, they end with it


@pytest.mark.parametrize("persistent", [False, True])
def test_loaders_of_one_line_that_epochs_go_through_again_are_not_made_anew(persistent):
    made = [{**MADE, "id": each, "num_workers": 2, "persistent_workers": persistent} for each in (1, 2)]
    times = [(1, 0, 1000, 1240), (1, 1, 1250, 1490), (2, 0, 1500, 1740), (2, 1, 1750, 2000)]
    epochs = [epoch(each, index=index, begin=begin) for each, index, begin, _ in times]
    ends = [
        {**ended(each, index=index, t=t, batches=25, wait=24), "end_wait_ns": 0}
        for each, index, _, t in times
    ]
    fed = np.concatenate([fetches(50, 6, loader=each) for each in (1, 2)])
    found = facts(*made, *epochs, *ends, loader=fed)
    assert (found.built, found.epochs, found.anew) == (2, 4, False)
    assert (found.persistent_workers, found.restarts) == (persistent, 0 if persistent else 2)


def test_loaders_of_one_line_that_deliver_side_by_side_are_several():
    made = [{**MADE, "id": each} for each in (1, 2)]
    epochs = [epoch(1), epoch(2, begin=1001)]
    ends = [{**ended(each, t=2000, batches=100), "end_wait_ns": 0} for each in (1, 2)]
    fed = np.concatenate([fetches(100, 6, loader=1), fetches(100, 9, loader=2)])
    found = facts(*made, *epochs, *ends, loader=fed)
    assert (found.built, found.batches_per_step, found.batch_s) == (1, 1.0, pytest.approx(0.009))


@pytest.mark.parametrize(("first", "second", "dataset"), [(2, 9, "train.Unlabelled"), (9, 2, "train.Data")])
def test_of_loaders_that_feed_the_same_steps_the_costliest_is_the_training_one(first, second, dataset):
    made = [MADE, {**MADE, "id": 2, "dataset": "train.Unlabelled"}]
    epochs = [epoch(1), epoch(2, begin=1001)]
    left = {"end_wait_ns": None, "last_ns": 1985 * MS}  # `zip` never asks for its last batch
    ends = [{**ended(1, t=2000, batches=100), "end_wait_ns": 0}, {**ended(2, t=2000, batches=100), **left}]
    fed = np.concatenate([fetches(100, first, loader=1), fetches(100, second, loader=2)])
    found = facts(*made, *epochs, *ends, loader=fed)
    assert found.dataset == dataset
    assert found.other_wait_s == 0.0
    assert found.beside_wait_s == pytest.approx((0.04 + 0.02 + 0.098) / 100)


def test_a_loader_that_fed_other_steps_is_not_the_training_one_because_it_costs_more():
    made = [MADE, {**MADE, "id": 2, "dataset": "train.Pretraining"}]
    events = [
        epoch(2),
        {**ended(2, t=1400, batches=40), "end_wait_ns": 0},
        epoch(1, begin=1400),
        {**ended(1, t=2000, batches=60), "end_wait_ns": 0},
    ]
    fed = np.concatenate([fetches(40, 9, loader=2), fetches(60, 3, loader=1, begin_ms=1400)])
    assert facts(*made, *events, loader=fed).dataset == "train.Data"


def test_a_pass_over_the_data_before_training_feeds_no_step():
    before = [epoch(begin=100), {**ended(t=900, batches=100), "end_wait_ns": 0}]
    training = [epoch(index=1), {**ended(index=1, t=2000, batches=100), "end_wait_ns": 0}]
    looked = fetches(100, 20, begin_ms=100, every_ms=8)
    found = facts(MADE, *before, *training, loader=np.concatenate([looked, fetches(100, 6)]))
    assert (found.epochs, found.batches, found.batches_per_step) == (1, 100, 1.0)
    assert found.batch_s == pytest.approx(0.006)


def test_batches_of_an_epoch_that_was_not_seen_to_its_end_are_those_that_the_steps_were_given():
    found = boundaries.find(STEPS)
    given = replace(found, counts={**found.counts, "batches": found.weight})
    ahead = RankRecords(0, STEPS, fetches(102, 6), ({**MADE, "num_workers": 16}, epoch()))
    assert loader_facts(ahead, MeasuredSpan.of(given), given).batches_per_step == 1.0


def of_clients(*clients, epochs=1):
    """Of loaders that one line makes in turn, each for a client with 40 items, over so many epochs."""
    events = [{**MADE, "id": number, "contents": client} for number, client in enumerate(clients, 1)]
    begin = 1000
    for index in range(epochs):
        for number in range(1, len(clients) + 1):
            events.append(epoch(number, index=index, begin=begin, items=40))
            events.append({**ended(number, index=index, t=begin + 90, batches=9), "end_wait_ns": 1})
            begin += 100
    fed = [fetches(9, 6, loader=number) for number in range(1, len(clients) + 1)]
    return facts(*events, loader=np.concatenate(fed))


def test_the_items_of_all_data_sets_that_a_line_makes_loaders_of_are_told():
    found = of_clients(7, 8, 7, 8, 7, 9)
    assert (found.built, found.items, found.items_in_all, found.all_items) == (6, 40, 120, 120)
    assert found.passes == found.samples / 120
    assert of_clients(7, 8, epochs=2).items_in_all == 80
    assert of_clients(None, None, epochs=2).items_in_all == 80


def test_a_data_set_that_is_made_anew_may_be_the_same_one():
    assert of_clients(7, 7, 7).all_items == 40
    assert of_clients(7, 8, 9).all_items == 40  # or hold the number of the epoch
    assert of_clients(None, None, None).all_items == 40
