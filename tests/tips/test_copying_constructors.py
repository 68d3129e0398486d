from __future__ import annotations

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.copying_constructors import copying_constructors as tip
from tests.support import facts
from tests.support.facts import cpu, loader, step
from tests.support.load_facts import copied

BUSY = step(other=10, forward=4, backward=6)
STARVED = step(data_wait=12, forward=3, backward=5)


def test_names_the_line_in_the_loop():
    advice = tip(BUSY, copied(in_loop=0.4))
    assert advice is not None
    assert advice.because == (
        "40% of each step copies data into new tensors in the training loop",
        "line 50 takes the most: `x = torch.tensor(rows)`",
    )
    assert [at.line for at in advice.at] == [50]
    assert 1 < facts.gain(advice).low < facts.gain(advice).likely < facts.gain(advice).high < 20 / 12


@pytest.mark.parametrize(
    ("kind", "charged"),
    [("data", Bottleneck.DATA), ("compute", Bottleneck.COMPUTE), (None, Bottleneck.HOST)],
)
def test_what_it_saves_in_the_loop_is_of_the_class_that_the_line_is_charged_to(kind, charged):
    advice = tip(BUSY, copied(in_loop=0.4, kind=kind))
    assert advice is not None
    assert advice.bottleneck is charged
    both = tip(STARVED, copied(in_loop=0.4, in_batch=0.5, kind=kind))
    assert both is not None
    assert {both.bottleneck, *both.also} == {charged, Bottleneck.DATA}


def test_names_the_line_in_the_dataset_where_batches_are_late():
    advice = tip(STARVED, copied(in_batch=0.5))
    assert advice is not None
    assert advice.because[0] == "50% of a batch's cost is such copying; 60% of each step waits for batches"
    assert [at.line for at in advice.at] == [20]
    of = facts.model(STARVED, loader(batch=12), cpu())
    assert 1 < facts.gain(advice, of).likely < 20 / 8


@pytest.mark.parametrize(
    ("of_step", "lines"),
    [
        pytest.param(BUSY, copied(in_loop=0.049), id="noise-in-the-loop"),
        pytest.param(BUSY, copied(in_loop=0.4, samples=4), id="seen-too-seldom"),
        pytest.param(BUSY, copied(in_batch=0.5), id="batches-are-not-late"),
        pytest.param(STARVED, copied(in_batch=0.19), id="a-small-part-of-a-batch"),
    ],
)
def test_is_silent(of_step, lines):
    assert tip(of_step, lines) is None
