from __future__ import annotations

import pytest

from perfdoctor.tips.slow_dataset_code import slow_dataset_code as tip
from tests import facts
from tests.facts import cpu, line, loader, model, stacks, step

STARVED = step(data_wait=12, forward=3, backward=5, cpu=19)
SLOW = (
    line(0.5, 12, text="out[y][x] = image[y][x] ** 2", function="__getitem__"),
    line(0.3, 11, text="for x in range(28):", function="__getitem__"),
    line(0.1, 30, function="collate"),
)


def judge(of_step, of_loader, of_stacks):
    return tip(of_step, of_loader, of_stacks, model(of_step, of_loader, cpu()))


def test_names_the_function_the_line_and_its_text():
    advice = judge(STARVED, loader(batch=12), stacks(loader=SLOW))
    assert advice is not None
    assert advice.because == (
        "60% of each step waits for the next batch",
        "80% of a batch's 12.0 ms is spent in `__getitem__`",
        "line 12 takes 50% of it: `out[y][x] = image[y][x] ** 2`",
    )
    assert [at.line for at in advice.at] == [12, 11]


def test_expects_no_more_than_the_batches_cost():
    advice = judge(STARVED, loader(batch=12), stacks(loader=SLOW))
    gain = facts.gain(advice, model(STARVED, loader(batch=12), cpu()))
    assert gain.low < gain.likely < gain.high <= 20 / 8


def test_names_the_cure_that_fits_the_line():
    rows = (line(0.9, 8, text="row = self.table.iloc[index]", function="__getitem__"),)
    advice = judge(STARVED, loader(batch=12), stacks(loader=rows))
    assert advice is not None
    assert advice.code is not None
    assert "to_numpy" in advice.code


@pytest.mark.parametrize(
    ("of_step", "of_loader", "of_stacks"),
    [
        pytest.param(
            step(data_wait=1.9, forward=18.1), loader(batch=2), stacks(loader=SLOW), id="wait-is-noise"
        ),
        pytest.param(STARVED, loader(batch=12, cpu=5), stacks(loader=SLOW), id="it-waits-for-something"),
        pytest.param(STARVED, loader(batch=12), stacks(loader=SLOW, loader_samples=9), id="too-few-samples"),
        pytest.param(STARVED, loader(batch=12), stacks(loader=(line(0.39),)), id="just-under-the-threshold"),
        pytest.param(STARVED, loader(batch=12), stacks(), id="nothing-seen"),
    ],
)
def test_is_silent(of_step, of_loader, of_stacks):
    assert judge(of_step, of_loader, of_stacks) is None
