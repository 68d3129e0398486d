from __future__ import annotations

from dataclasses import astuple

import pytest

from perfdoctor.facts.predict.published_gains import MainWork, ModelKind, channels_last
from perfdoctor.tips.channels_first_convolutions import channels_first_convolutions as tip
from perfdoctor.trace.results import KernelClass, WorkUse
from tests.support import facts
from tests.support.rank_traces import kernel

CONVOLUTION = kernel("sm80_xmma_fprop_f16f16", "convolution", 40, dtype="float16", tensor=True)
TO_NHWC = kernel("void cudnn::ops::nchwToNhwcKernel<__half>", "layout conversion", 8, count=60)
TRANSPOSED = kernel("batched_transpose_32x32_half", "layout conversion", 2, count=40)
REST = kernel("vectorized", "pointwise", 50)
WIDEST = channels_last(ModelKind(MainWork.UNSHAPED))


def weights(channels, width, us=100):
    """Gradients of a convolution with `width` of its channels in a group."""
    shapes = (8, channels, 14, 14), (8, channels, 14, 14), (channels, width, 3, 3)
    op = "aten::convolution_backward"
    return WorkUse(op, KernelClass.CONVOLUTION, shapes, "float16", 10, us, 1.0, 1.0)


def used(*work):
    return facts.kernels(CONVOLUTION, TO_NHWC, TRANSPOSED, REST, work=work)


def test_counts_the_conversions_around_convolutions():
    advice = tip(facts.kernels(CONVOLUTION, TO_NHWC, TRANSPOSED, REST))
    assert advice.because == (
        "10.0% of the time goes into 100 conversions between NCHW and NHWC layout",
        "convolutions themselves take 40.0%, on tensor cores, which need channels last",
        f"whether they are grouped is not known: if so, it may be slower, down to {WIDEST.low:.2f}x",
    )
    assert advice.tweak == "--channels-last"


def test_a_model_of_plain_convolutions_gains_as_published_ones():
    advice = tip(used(weights(64, 64)))
    assert len(advice.because) == 2
    published = channels_last(ModelKind(MainWork.CONVOLUTIONS))
    assert astuple(facts.gain(advice)) == pytest.approx(astuple(published))


def test_conversions_that_take_longer_than_published_gains_go():
    converting = kernel("nchwToNhwc", "layout conversion", 60)
    gain = facts.gain(tip(facts.kernels(CONVOLUTION, converting, work=(weights(64, 64),))))
    published = channels_last(ModelKind(MainWork.CONVOLUTIONS))
    assert gain.low == pytest.approx(published.low)
    assert gain.likely == gain.high == pytest.approx(1 / 0.4)


def test_of_narrow_groups_it_warns_and_may_be_slower():
    advice = tip(used(weights(128, 4), weights(64, 64, us=300)))
    published = channels_last(ModelKind(MainWork.GROUPED, 4.0))
    assert advice.because[2] == (
        "25% of their time is in grouped ones of 4 channels a group: "
        f"some such models became slower, down to {published.low:.2f}x"
    )
    gain = facts.gain(advice)
    assert gain.low == pytest.approx(published.low)
    assert gain.low < 1.0 < gain.likely


def test_depthwise_convolutions_are_no_reason_to_warn():
    advice = tip(used(weights(128, 1), weights(64, 64)))
    assert len(advice.because) == 2
    assert facts.gain(advice).likely == pytest.approx(channels_last(ModelKind(MainWork.DEPTHWISE)).likely)


def test_is_silent_where_models_with_such_wide_groups_became_slower():
    assert tip(used(weights(512, 64), weights(64, 64, us=300))) is None
    assert tip(used(weights(512, 64, us=5), weights(64, 64, us=300))) is not None  # next to none of them


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
