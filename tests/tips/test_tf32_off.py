from __future__ import annotations

import pytest

from perfdoctor.tips.tf32_off import tf32_off as tip
from perfdoctor.trace.results import DevicePeak
from tests.support import facts
from tests.support.rank_traces import A100, V100, kernel

PLAIN = kernel("ampere_sgemm_128x64_nn", "matmul", 40)
OTHER = kernel("vectorized", "pointwise", 60)
SLOW_TF32 = DevicePeak("A10G", {"float32": 35e12, "tf32": 35e12}, 600e9, "the maker's data sheet")


def test_holds_the_devices_rates_against_each_other():
    advice = tip(facts.kernels(PLAIN, OTHER), A100)
    assert advice.because == (
        "40.0% of the time goes into float32 products without TF32",
        "most of it in ampere_sgemm_128x64_nn",
        "A100 80GB does 8.0 times as many operations a second in TF32 (the maker's data sheet)",
    )
    assert not advice.same_result


def test_the_gain_is_bounded_by_what_well_tuned_products_reach():
    gain = facts.gain(tip(facts.kernels(PLAIN, OTHER), A100))
    assert gain.likely == pytest.approx(1 / (1 - 0.4 / 2))
    assert gain.high == pytest.approx(1 / (1 - 0.4 * (1 - 1 / 5.6)))


def test_convolutions_and_products_are_set_apart():
    on = kernel("sm80_xmma_fprop_tf32f32", "convolution", 30, dtype="tf32", tensor=True)
    assert tip(facts.kernels(PLAIN, on, OTHER), A100).because[0].startswith("30.8%")


@pytest.mark.parametrize(
    ("used", "device"),
    [
        pytest.param((PLAIN, OTHER), V100, id="no-tf32-on-this-device"),
        pytest.param((PLAIN, OTHER), SLOW_TF32, id="no-faster-on-this-device"),
        pytest.param((kernel("gemm", "matmul", 9.9), kernel("v", "pointwise", 90.1)), A100, id="small"),
        pytest.param(
            (PLAIN, kernel("s1688gemm", "matmul", 4, dtype="tf32", tensor=True), OTHER), A100, id="it-is-on"
        ),
        pytest.param((kernel("gemm", "matmul", 90, dtype="bfloat16", tensor=True),), A100, id="16-bits"),
        pytest.param((kernel("Cijk", "matmul", 90, tensor=True),), A100, id="on-matrix-cores-already"),
    ],
)
def test_is_silent(used, device):
    assert tip(facts.kernels(*used), device) is None
