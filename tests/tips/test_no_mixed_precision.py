from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from perfdoctor.facts.predict.published_gains import MainWork, ModelKind, mixed_precision
from perfdoctor.tips.no_mixed_precision import no_mixed_precision as tip
from perfdoctor.trace.results import DevicePeak
from tests.support import facts
from tests.support.rank_traces import V100, kernel, worked

WIDE = kernel("volta_sgemm_128x64_nn", "matmul", 60)
PLAIN = kernel("vectorized", "pointwise", 40)
A100 = DevicePeak(
    "A100", {"float32": 19.5e12, "tf32": 156e12, "bfloat16": 312e12, "float16": 312e12}, 1.5e12, "-"
)
P100 = DevicePeak("P100", {"float32": 9.3e12, "float16": 18.7e12}, 732e9, "-")
K80 = DevicePeak("K80", {"float32": 4.1e12}, 240e9, "-")


def test_says_what_share_is_computed_in_32_bits_and_what_the_device_could():
    advice = tip(facts.kernels(WIDE, PLAIN), V100)
    assert advice.because[0] == "60.0% of the time goes into matrix products and convolutions in 32 bits"
    assert "125 TFLOP/s in 16 bits" in advice.because[1]
    assert advice.tweak == "--amp"
    assert not advice.same_result


def test_without_bfloat16_it_advises_float16_with_a_scaler():
    assert "GradScaler" in tip(facts.kernels(WIDE), V100).code
    assert "bfloat16" in tip(facts.kernels(WIDE), A100).code
    assert tip(facts.kernels(WIDE), V100).arguments == "fp16=True"
    assert tip(facts.kernels(WIDE), A100).arguments == "bf16=True"


def test_trainings_gain_as_published_ones_by_what_their_32_bits_are():
    tf32 = kernel("tf32gemm", "matmul", 60, dtype="tf32", tensor=True)
    for used, peak, is_tf32 in ((WIDE, V100, False), (WIDE, A100, False), (tf32, A100, True)):
        gain = facts.gain(tip(facts.kernels(used, PLAIN), peak))
        assert astuple(gain) == pytest.approx(astuple(mixed_precision(ModelKind(MainWork.MATRICES), is_tf32)))


def test_a_model_with_few_products_gains_in_proportion():
    few = facts.gain(tip(facts.kernels(kernel("sgemm", "matmul", 20), kernel("v", "pointwise", 80)), V100))
    published = mixed_precision(ModelKind(MainWork.MATRICES), tf32=False)
    assert few.likely == pytest.approx(1 / (1 - 0.4 * (1 - 1 / published.likely)))


def test_without_published_figures_of_such_a_device_half_the_bytes_go_and_at_best_its_rate_counts():
    advice = tip(facts.kernels(WIDE, PLAIN), P100)
    gain = facts.gain(advice)
    assert not advice.change.is_published  # so that it is widened
    assert gain.low == pytest.approx(1 / (1 - 0.6 * (1 - 1 / 1.3)))
    assert gain.likely == gain.high == pytest.approx(1 / 0.7)


@pytest.mark.parametrize(
    ("kernels", "peak"),
    [
        pytest.param(facts.kernels(PLAIN), V100, id="nothing-heavy"),
        pytest.param(
            facts.kernels(kernel("h", "matmul", 60, dtype="float16")), V100, id="already-in-16-bits"
        ),
        pytest.param(facts.kernels(WIDE), K80, id="no-16-bit-units"),
        pytest.param(facts.kernels(WIDE, share=0.05), V100, id="little"),
        pytest.param(facts.kernels(kernel("odd", "matmul", 60, dtype=None)), V100, id="type-not-known"),
    ],
)
def test_is_silent(kernels, peak):
    assert tip(kernels, peak) is None


def test_a_device_twice_as_fast_in_16_bits_is_enough():
    assert tip(facts.kernels(WIDE), P100) is not None


# Products near those of a V100: 1 ms at its peak in float32, or 1 ms for their bytes.
FAST = worked(ms=60, count=48, flops=15.7e9, size=1e8)
MOVING = worked(ms=60, count=48, flops=1e9, size=9e8)
SLOW = worked("aten::bmm", ms=60, count=6, flops=1.34e8, size=201e6)


def test_products_far_from_both_limits_gain_nothing():
    assert tip(facts.kernels(WIDE, PLAIN, work=(SLOW,)), V100) is None
    assert tip(facts.kernels(WIDE, PLAIN, work=(SLOW,)), P100) is None
    assert tip(facts.kernels(WIDE, PLAIN, work=(FAST,)), V100) is not None


def test_beside_them_only_the_others_count():
    half = facts.kernels(WIDE, PLAIN, work=(replace(FAST, us=30e3, count=24), replace(SLOW, us=30e3)))
    all_of_them = facts.kernels(WIDE, PLAIN, work=(FAST,))
    gains = [facts.gain(tip(used, V100)) for used in (half, all_of_them)]
    assert gains[0].likely < gains[1].likely
    assert gains[0].high < gains[1].high


def test_a_little_further_from_both_limits_a_little_less_is_likely_and_bytes_may_still_go():
    nearer, further, far = (
        facts.gain(tip(facts.kernels(WIDE, PLAIN, work=(replace(FAST, us=48 * times * 1e3),)), V100))
        for times in (4.9, 5.1, 8.0)
    )
    assert nearer.likely / further.likely < 1.1
    assert nearer.likely > further.likely > far.likely
    assert far.high > 1.2


def test_products_that_memory_bounds_gain_at_most_twice():
    gain = facts.gain(tip(facts.kernels(WIDE, work=(MOVING,)), V100))
    assert 1.0 < gain.low < gain.likely < gain.high == pytest.approx(2.0)


def test_where_the_work_is_known_its_rates_tell_what_is_likely_in_the_range_of_published_gains():
    # Near six products of 4096 x 4096 in TF32 on an H200, which became 1.63 times as fast in all.
    device = DevicePeak("H200", {"float32": 67e12, "tf32": 494.7e12, "bfloat16": 989.4e12}, 4.8e12, "-")
    used = (
        kernel("tf32gemm", "matmul", 10.7, dtype="tf32", tensor=True),
        kernel("multi_tensor_apply", "optimizer", 1.0),
        kernel("vectorized", "pointwise", 0.9),
        kernel("reduce", "reduction", 0.3),
    )
    known = worked(ms=10.7, count=51, dtype="tf32", flops=68.7e9, size=134e6)
    plain, told = (facts.gain(tip(facts.kernels(*used, work=work), device)) for work in ((), (known,)))
    assert (told.low, told.high) == (plain.low, plain.high)
    assert told.likely == pytest.approx(1.7, abs=0.1)
    assert plain.likely > 1.9
