from __future__ import annotations

import pytest

from perfdoctor.tips.channels_first_convolutions import channels_first_convolutions as tip
from tests.support import facts
from tests.support.rank_traces import kernel

CONVOLUTION = kernel("sm80_xmma_fprop_f16f16", "convolution", 40, dtype="float16", tensor=True)
TO_NHWC = kernel("void cudnn::ops::nchwToNhwcKernel<__half>", "layout conversion", 8, count=60)
TRANSPOSED = kernel("batched_transpose_32x32_half", "layout conversion", 2, count=40)
REST = kernel("vectorized", "pointwise", 50)


def test_counts_the_conversions_around_convolutions():
    advice = tip(facts.kernels(CONVOLUTION, TO_NHWC, TRANSPOSED, REST))
    assert advice.because == (
        "10.0% of the time goes into 100 conversions between NCHW and NHWC layout",
        "convolutions themselves take 40.0%, on tensor cores, which need channels last",
    )
    assert advice.tweak == "--channels-last"


def test_conversions_go_and_convolutions_gain_what_was_published_at_most():
    gain = facts.gain(tip(facts.kernels(CONVOLUTION, TO_NHWC, TRANSPOSED, REST)))
    assert (gain.low, gain.likely, gain.high) == pytest.approx(
        (1 / 0.95, 1 / 0.9, 1 / (1 - 0.1 - (1 - 1 / 1.35) * 0.4))
    )


def test_a_conversion_is_told_by_the_operator_that_launched_it_too():
    unnamed = kernel(
        "transpose_readWrite_alignment_kernel", "layout conversion", 10, op="aten::cudnn_convolution"
    )
    assert tip(facts.kernels(CONVOLUTION, unnamed, REST)) is not None


@pytest.mark.parametrize(
    "used",
    [
        pytest.param((CONVOLUTION, REST), id="no-conversions"),
        pytest.param((CONVOLUTION, kernel("nchwToNhwc", "layout conversion", 2.7), REST), id="few"),
        pytest.param((kernel("scudnn", "convolution", 40), TO_NHWC, REST), id="not-on-tensor-cores"),
        pytest.param(
            (CONVOLUTION, kernel("transpose", "layout conversion", 9, op="aten::contiguous"), REST),
            id="users-own",
        ),
    ],
)
def test_is_silent(used):
    assert tip(facts.kernels(*used)) is None
