from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.data.validation_loader import validation_loader_facts
from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.runs.types import RankRecords
from tests.support.records import MS, fetches, rows, update

STEPS = rows([update(10)] * 100)  # 1000 to 2000 ms
PASSES = [1102 + 200 * number for number in range(4)]  # each inside one step


def made(identity, line, workers=0, **more):
    at = {"file": "train.py", "line": line, "function": "main"}
    fixed = {"dataset": "train.Data", "batch_size": 32, "at": at}
    return {"event": "loader", "id": identity, "num_workers": workers, **fixed, **more}


def read(loader, begin, until, batches=4, wait=3.0, index=1):
    """One epoch of a loader, from `begin` to `until`, whose batches are waited for."""
    began = {"begin_ns": begin * MS, "t_ns": begin * MS, "startup_ns": 0, "first_wait_ns": 1 * MS}
    ended = {"t_ns": until * MS, "last_ns": until * MS, "end_wait_ns": 0, "wait_ns": wait * MS}
    same = {"loader": loader, "index": index}
    return [{"event": "epoch", **same, **began}, {"event": "epoch_end", "batches": batches, **same, **ended}]


def passes(*loaders):
    """A pass over each of these loaders in turn."""
    events = []
    for number, begin in enumerate(PASSES):
        events += read(loaders[number % len(loaders)], begin, begin + 6, index=number)
    return events


def facts(*events, fed):
    found = boundaries.find(STEPS)
    rank = RankRecords(0, STEPS, fed, tuple(events))
    return validation_loader_facts(rank, MeasuredSpan.of(found))


TRAINING = [made(1, 9, workers=2), *read(1, 1000, 2000, batches=100)]
OF_TRAINING = fetches(100, 6)
OF_VALIDATION = fetches(16, 5, cpu_ms=4, loader=2, every_ms=50)
BOTH = np.concatenate([OF_TRAINING, OF_VALIDATION])


def test_a_loader_that_no_step_ends_in_has_its_wait_and_the_cost_of_its_batches():
    found = facts(*TRAINING, made(2, 12), *passes(2), fed=BOTH)
    assert (found.num_workers, found.at.line, found.built, found.epochs) == (0, 12, 1, 4)
    assert (found.batch_s, found.batch_cpu_s) == pytest.approx((0.005, 0.004))
    assert found.wait_s == pytest.approx(4 * 0.004 / 100)
    assert (found.batches, found.batches_per_step) == (16, pytest.approx(0.16))


def test_loaders_that_one_line_makes_for_every_pass_count_as_one():
    anew = [made(2, 12), made(3, 12)]
    fed = np.concatenate([OF_TRAINING, OF_VALIDATION, fetches(16, 5, loader=3, every_ms=50)])
    found = facts(*TRAINING, *anew, *passes(2, 3), fed=fed)
    assert (found.built, found.batches, found.epochs) == (2, 32, 4)
    assert found.wait_s == pytest.approx(4 * 0.004 / 100)


def test_of_several_the_one_that_is_waited_for_longest_is_told():
    events = [*TRAINING, made(2, 12), made(3, 14), *passes(2), *read(3, 1902, 1906, wait=30)]
    fed = np.concatenate([BOTH, fetches(4, 8, loader=3, begin_ms=1900, every_ms=2)])
    assert facts(*events, fed=fed).at.line == 14


def test_a_second_loader_that_is_trained_on_is_none_of_validation():
    beside = [*TRAINING, made(2, 12), *read(2, 1000, 2000, batches=100)]
    assert facts(*beside, fed=np.concatenate([OF_TRAINING, fetches(100, 1, loader=2)])) is None


def test_without_batches_or_waits_there_is_none():
    assert facts(*TRAINING, fed=OF_TRAINING) is None
    assert facts(*TRAINING, made(2, 12), *passes(2), fed=OF_TRAINING) is None
    assert facts(*TRAINING, made(2, 12), fed=BOTH) is None


@pytest.mark.parametrize("loaders", [4, 40])
def test_records_are_gone_through_as_often_however_many_loaders_are_made(monkeypatch, loaders):
    asked = []
    of = RankRecords.of
    monkeypatch.setattr(RankRecords, "of", lambda rank, kind: asked.append(kind) or of(rank, kind))
    others = [made(2 + number, 14) for number in range(loaders)]
    found = facts(*TRAINING, *others, *passes(*(other["id"] for other in others)), fed=BOTH)
    assert found.built == loaders
    assert len(asked) < 20
