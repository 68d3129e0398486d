from __future__ import annotations

import pytest

from perfdoctor.tips.batches_built_in_the_loop import batches_built_in_the_loop as tip
from tests.facts import cpu, line, stacks, step

SLOW = step(other=12, forward=3, backward=5, cpu=19)
BUILDS = (line(0.4, 20, "data", text="x = stack(rows)"), line(0.2, 19, "data"))


def test_names_the_share_and_the_line():
    advice = tip(SLOW, stacks(*BUILDS), cpu(cores=4))
    assert advice is not None
    assert advice.because == (
        "60% of each step (12.0 ms) builds the next batch in the training loop",
        "line 20 takes the most, 40% of the step: `x = stack(rows)`",
    )
    assert [at.line for at in advice.at] == [20, 19]
    assert 1.5 < advice.gain.likely <= advice.gain.high <= 2.5 + 1e-9


def test_expects_less_on_two_cores_that_compute_keeps_busy():
    busy = step(other=12, forward=3, backward=5, cpu=28)
    alone = tip(busy, stacks(*BUILDS), cpu(cores=8))
    shared = tip(busy, stacks(*BUILDS), cpu(cores=2))
    assert alone is not None
    assert shared is not None
    assert shared.gain.likely < alone.gain.likely


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((line(0.0799, kind="data"),), id="just-under-the-threshold"),
        pytest.param((line(0.6, kind="data", samples=4),), id="too-few-samples"),
        pytest.param((line(0.6, kind="logging"), line(0.2)), id="other-work"),
        pytest.param((), id="nothing-seen"),
    ],
)
def test_is_silent(lines):
    assert tip(SLOW, stacks(*lines), cpu()) is None


def test_fires_just_above_the_threshold():
    assert tip(SLOW, stacks(line(0.0801, kind="data")), cpu()) is not None
