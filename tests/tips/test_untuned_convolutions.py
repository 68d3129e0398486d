from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.backends import BackendFacts
from perfdoctor.tips.untuned_convolutions import untuned_convolutions as tip
from tests.support import facts
from tests.support.rank_traces import kernel, worked

OFF, ON, UNKNOWN = (BackendFacts(value, facts.LOADER_LINE) for value in (False, True, None))
KERNELS = kernel("fprop", "convolution", 40), kernel("vectorized", "pointwise", 60)
SAME = worked("aten::conv2d", "convolution", ms=30, count=5)
ODD = worked("aten::conv2d", "convolution", ms=1.5, count=1)
CHANGING = worked("aten::conv2d", "convolution", ms=30, count=4)


def judged(*work, backends=OFF, used=KERNELS):
    return tip(facts.kernels(*used, work=work), backends)


def test_names_the_setting_and_the_sizes_that_come_again():
    advice = judged(SAME, ODD)
    assert advice.because == (
        "40.0% of the time goes into convolutions, of 2 sizes that recur in every step",
        "torch.backends.cudnn.benchmark is off: cuDNN did not time its kernels for them",
    )
    assert advice.tweak == "--cudnn-benchmark"
    assert not advice.same_result


def test_the_published_range_applies_to_the_convolutions():
    gain = facts.gain(judged(SAME))
    assert gain.likely == pytest.approx(1 / (1 - 0.4 * (1 - 1 / 1.27)))
    assert gain.high == pytest.approx(1 / (1 - 0.4 * (1 - 1 / 1.7)))


def test_a_cudnn_that_guesses_well_is_promised_next_to_nothing():
    gain = facts.gain(judged(SAME, backends=replace(OFF, cudnn_version=9)))
    assert gain.low < 1.0 < gain.likely < 1.02
    assert facts.gain(judged(SAME, backends=replace(OFF, cudnn_version=8))).likely > 1.05


@pytest.mark.parametrize(
    "advice",
    [
        pytest.param(judged(SAME, backends=ON), id="it-is-on"),
        pytest.param(judged(SAME, backends=UNKNOWN), id="unknown"),
        pytest.param(judged(SAME, CHANGING), id="sizes-change"),
        pytest.param(judged(), id="no-shapes"),
        pytest.param(
            judged(SAME, used=(kernel("fprop", "convolution", 9.9), kernel("v", "pointwise", 90.1))),
            id="small",
        ),
    ],
)
def test_is_silent(advice):
    assert advice is None
