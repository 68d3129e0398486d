from __future__ import annotations

import pytest

from perfdoctor.tips.nested_datasets import nested_datasets as tip
from tests.support.facts import loader, step
from tests.support.load_facts import nested

STEP = step(data_wait=60, forward=40)
LOADER = loader(workers=0, batch=100)


def test_says_how_deep_and_where():
    advice = tip(STEP, LOADER, nested())
    assert advice.because == (
        "60% of each step waits for the next batch",
        "80% of a batch's 100.0 ms is spent in `Subset` and `ConcatDataset`",
        "items usually pass through 60 of them, 120 at most",
        "line 72 wraps: `pool = Subset(pool, rest)`",
    )
    assert [at.line for at in advice.at] == [72]
    assert "Subset(base, indices)" in advice.code


def test_what_samplers_cut_off_is_said():
    assert tip(STEP, LOADER, nested(is_cut=True)).because[2].endswith("at least 120 at most")


def test_the_wrappers_own_time_goes():
    batch = tip(STEP, LOADER, nested()).change.batch
    assert (batch.low, batch.likely, batch.high) == pytest.approx((0.64, 0.88, 0.96))


def test_it_goes_from_the_waits_for_other_loaders_as_well():
    waiting = loader(workers=0, batch=100, other_wait_s=STEP.mean_s / 4)
    others = tip(STEP, waiting, nested()).change.others
    assert (others.low, others.likely, others.high) == pytest.approx((0.16, 0.22, 0.24))
    workers = loader(workers=2, batch=100, other_wait_s=STEP.mean_s / 4)
    assert tip(STEP, workers, nested()).change.others.high == 0


def test_fires_at_the_thresholds_and_is_silent_just_under_them():
    assert tip(STEP, LOADER, nested(0.2501)) is not None
    assert tip(STEP, LOADER, nested(0.2499)) is None
    assert tip(STEP, LOADER, nested(samples=5)) is not None
    assert tip(STEP, LOADER, nested(samples=4)) is None
    assert tip(step(data_wait=9, forward=91), LOADER, nested()) is None
