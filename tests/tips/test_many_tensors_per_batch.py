from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.data.batch_tensors import BatchTensorFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.many_tensors_per_batch import FIXED, LEAST
from perfdoctor.tips.many_tensors_per_batch import many_tensors_per_batch as tip
from tests.support.facts import loader, step

STEP = step(data_wait=47, forward=24, backward=20, other=9)
LOADER = loader(workers=2, batch=2.3)
AT = Location("/home/me/loading.py", 53, "collate", "return samples")
BATCH = BatchTensorFacts(tensors=550, longest=62, handed=0.47, freed=0.09, samples=300, at=(AT,))


def test_says_how_many_tensors_a_batch_comes_in_and_what_their_way_takes():
    advice = tip(STEP, LOADER, BATCH)
    assert advice is not None
    assert advice.because == (
        "47% of each step (47.0 ms) waits for batches on their way from the workers",
        "a batch comes as 550 tensors, each in memory of its own; merged, as 9 tensors",
        "giving their memory back takes another 9.0 ms",
    )
    assert advice.at == (AT,)
    assert "torch.cat" in advice.code


def test_what_goes_is_what_as_many_tensors_as_a_sample_has_do_not_take():
    change = tip(STEP, LOADER, BATCH).change
    likely, most = 1 - (9 + FIXED) / (550 + FIXED), 1 - 9 / 550
    assert change.handed == Estimate(*map(pytest.approx, (LEAST * likely, likely, most)))
    assert change.step == Estimate(0.0, *map(pytest.approx, (likely * 0.09, most * 0.09)))


def test_nothing_is_said_of_giving_back_where_it_was_not_seen():
    advice = tip(STEP, LOADER, replace(BATCH, freed=0.0, longest=550))
    assert len(advice.because) == 2
    assert advice.because[1].endswith("merged, as 1 tensor")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"tensors": 63}, id="few-tensors"),
        pytest.param({"handed": 0.05, "freed": 0.02}, id="hardly-waited-for"),
        pytest.param({"longest": 1.0}, id="nothing-to-merge"),
        pytest.param({"samples": 4}, id="few-samples"),
    ],
)
def test_is_silent(given):
    assert tip(STEP, LOADER, replace(BATCH, **given)) is None


def test_batches_that_the_training_process_makes_itself_come_on_no_way():
    assert tip(STEP, loader(workers=0), BATCH) is None
