from __future__ import annotations

import pytest

from perfdoctor.tips.gradients_in_validation import gradients_in_validation as tip
from tests.support import facts
from tests.support.facts import evals, run, step

VALIDATES = step(forward=3, backward=3, validation=4)


def test_names_the_passes_and_their_share():
    advice = tip(run(), VALIDATES, evals(seconds=4, grad=4))
    assert advice is not None
    assert advice.because == (
        "100 of 100 passes in eval mode recorded gradients",
        "they take 40% of the training time, and memory for a whole graph",
    )
    assert advice.at[0].line == 60
    assert 1.0 <= facts.gain(advice).low < facts.gain(advice).likely < facts.gain(advice).high < 1 / 0.6
    assert advice.tweak == "--no-grad-eval"


@pytest.mark.parametrize(
    "of_evals",
    [
        pytest.param(evals(seconds=4, grad=0), id="no-gradients"),
        pytest.param(evals(seconds=4, grad=0.499), id="just-under-the-threshold"),
    ],
)
def test_is_silent(of_evals):
    assert tip(run(), VALIDATES, of_evals) is None


def test_fires_just_above_the_threshold():
    assert tip(run(), VALIDATES, evals(seconds=4, grad=0.501)) is not None


def test_on_a_cpu_fresh_memory_costs_as_well():
    on_cpu, on_device = (
        tip(run(device=name), VALIDATES, evals(seconds=4, grad=4)) for name in ("cpu", "A100")
    )
    assert on_cpu.change.pauses.likely > on_device.change.pauses.likely
