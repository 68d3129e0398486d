from __future__ import annotations

import pytest

from perfdoctor.tips.bias_before_batchnorm import bias_before_batchnorm as tip
from tests.support.facts import step
from tests.support.script_facts import biases

STEP = step(forward=40, backward=60)


def test_names_the_layers_and_the_lines_that_built_them():
    advice = tip(STEP, biases(10.0))
    assert advice.because == (
        "batch normalisation removes the bias of layers.0, layers.1",
        "2 such calls per step write 10.0 million elements",
    )
    assert [at.line for at in advice.at] == [10, 11]
    assert advice.tweak == "--drop-conv-bias"


def test_the_first_five_stand_for_many():
    advice = tip(STEP, biases(10.0, count=9))
    assert advice.because[0].endswith("layers.4 and 4 more")
    assert len(advice.at) == 5


def test_expects_hardly_anything_on_a_cpu_and_one_pass_over_the_outputs_at_best():
    share = tip(STEP, biases(10.0)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.0, 0.004, 0.04))


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(biases(1.2), id="just-under-the-threshold"),
        pytest.param(biases(10.0, device="cuda"), id="memory-of-a-device-is-fast"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None
