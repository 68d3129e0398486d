from __future__ import annotations

import pytest

from perfdoctor.model.batch import Stage, StageCost
from perfdoctor.tips.slow_collate import slow_collate as tip
from tests.support import facts
from tests.support.facts import cpu, line, loader, step
from tests.support.load_facts import batch, cost

STARVED = step(data_wait=12, forward=3, backward=5)
LOADER = loader(batch=12, collate_s=0.0096)
PADS = batch(cost(Stage.COLLATING, 0.8, line(0.7, 44, function="pad"), line(0.1, 45)))


def test_names_the_line_and_the_measured_time():
    advice = tip(STARVED, LOADER, PADS)
    assert advice is not None
    assert advice.because[1:] == (
        "collating takes 9.6 ms of a batch's 12.0 ms",
        "line 44 takes 70% of the batch",
    )
    assert advice.at[0].line == 44


def test_of_torchs_own_collate_function_it_names_the_loader_and_expects_less():
    advice = tip(STARVED, LOADER, batch(StageCost(Stage.COLLATING, "", "torch", 0.8, 100)))
    assert advice is not None
    assert advice.at == (LOADER.at,)
    assert "lambda" not in advice.code  # it could not be sent to workers that are not forked
    of = facts.model(STARVED, LOADER, cpu())
    assert facts.gain(advice, of).likely < facts.gain(tip(STARVED, LOADER, PADS), of).likely < 20 / 8


def test_of_a_librarys_collate_function_it_says_whose_it_is_and_shows_no_way_around_torchs():
    by = [StageCost(Stage.COLLATING, "", each, 0.4, 50) for each in ("torch", "torch_geometric")]
    advice = tip(STARVED, LOADER, batch(*by))
    assert advice is not None
    assert advice.because[-1] == "all of it in the collate function of torch_geometric, one call per sample"
    assert advice.code is None


@pytest.mark.parametrize(
    ("of_step", "of_batch"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), PADS, id="wait-is-noise"),
        pytest.param(STARVED, batch(cost(Stage.COLLATING, 0.34)), id="collating-is-a-part"),
    ],
)
def test_is_silent(of_step, of_batch):
    assert tip(of_step, LOADER, of_batch) is None
