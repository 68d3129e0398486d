from __future__ import annotations

import pytest

from perfdoctor.facts.data.late_sharding import LateShardingFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.late_sharding import late_sharding as tip
from tests.support.facts import loader, step

STEP = step(data_wait=60, forward=40)
LOADER = loader(workers=4, batch=100, iterable=True)
LOOP = Location("train.py", 51, "__iter__", "for number, sample in enumerate(self.read()):")
CHOICE = Location("train.py", 52, "__iter__", "if number % info.num_workers == info.id:")


def late(share=0.8, samples=100, choice=CHOICE):
    return LateShardingFacts(LOOP, choice, share, samples, 4)


def test_says_how_much_is_done_for_others_and_where():
    advice = tip(STEP, LOADER, late())
    before = "80% of a batch's 100.0 ms comes before a worker chooses its samples (line 52)"
    assert advice.because == (
        "60% of each step waits for the next batch",
        f"{before}: `if number % info.num_workers == info.id:`",
        "with 4 workers that is done 4 times",
    )
    assert advice.at == (LOOP, CHOICE)


def test_what_is_done_for_others_goes():
    batch = tip(STEP, LOADER, late()).change.batch
    assert (batch.low, batch.likely, batch.high) == pytest.approx((0.3, 0.6, 0.6))


def test_one_call_that_does_both_is_named_once():
    assert tip(STEP, LOADER, late(choice=LOOP)).at == (LOOP,)


def test_fires_at_the_thresholds_and_is_silent_just_under_them():
    assert tip(STEP, LOADER, late(0.2501)) is not None
    assert tip(STEP, LOADER, late(0.2499)) is None
    assert tip(STEP, LOADER, late(samples=5)) is not None
    assert tip(STEP, LOADER, late(samples=4)) is None
    assert tip(step(data_wait=9, forward=91), LOADER, late()) is None
