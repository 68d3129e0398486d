from __future__ import annotations

import pytest

from perfdoctor.facts.script.backends import Tf32Settings
from perfdoctor.tips.tf32_off import tf32_off as tip
from perfdoctor.trace.results import DevicePeak
from tests.support import facts
from tests.support.rank_traces import A100, V100, kernel, worked

UNKNOWN = Tf32Settings()
PLAIN = kernel("ampere_sgemm_128x64_nn", "matmul", 40)
OTHER = kernel("vectorized", "pointwise", 60)
SLOW_TF32 = DevicePeak("A10G", {"float32": 35e12, "tf32": 35e12}, 600e9, "the maker's data sheet")


def test_holds_the_devices_rates_against_each_other():
    advice = tip(facts.kernels(PLAIN, OTHER), A100, UNKNOWN)
    assert advice.because == (
        "40.0% of the time goes into float32 products without TF32",
        "most of it in ampere_sgemm_128x64_nn",
        "A100 80GB does 8.0 times as many operations a second in TF32 (the maker's data sheet)",
    )
    assert not advice.same_result


def test_the_gain_is_bounded_by_what_well_tuned_products_reach():
    gain = facts.gain(tip(facts.kernels(PLAIN, OTHER), A100, UNKNOWN))
    assert gain.likely == pytest.approx(1 / (1 - 0.4 / 2))
    assert gain.high == pytest.approx(1 / (1 - 0.4 * (1 - 1 / 5.6)))


def test_convolutions_and_products_are_set_apart():
    on = kernel("sm80_xmma_fprop_tf32f32", "convolution", 30, dtype="tf32", tensor=True)
    assert tip(facts.kernels(PLAIN, on, OTHER), A100, UNKNOWN).because[0].startswith("30.8%")


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
    assert tip(facts.kernels(*used), device, UNKNOWN) is None


@pytest.mark.parametrize(
    ("settings", "share", "code"),
    [
        (
            UNKNOWN,
            "60.0%",
            'torch.set_float32_matmul_precision("high")\ntorch.backends.cudnn.allow_tf32 = True',
        ),
        (Tf32Settings(False, True), "40.0%", 'torch.set_float32_matmul_precision("high")'),
        (Tf32Settings(True, False), "20.0%", "torch.backends.cudnn.allow_tf32 = True"),
        (Tf32Settings(True, True), None, None),
    ],
)
def test_what_is_switched_on_is_left_out_and_what_is_off_has_its_own_line(settings, share, code):
    convolution = kernel("implicit_convolve_sgemm", "convolution", 20)
    used = facts.kernels(PLAIN, convolution, kernel("vectorized", "pointwise", 40))
    advice = tip(used, A100, settings)
    assert (advice is None) is (share is None)
    if advice is not None:
        assert advice.because[0].startswith(share)
        assert advice.code == code


def products(ms: float, flops: float, size: float = 1e8):
    used = (kernel("simt_sgemm", "matmul", ms), kernel("vectorized", "pointwise", ms / 20))
    return facts.kernels(*used, work=(worked(ms=ms, count=50, flops=flops, size=size),))


def test_where_the_work_is_known_the_rates_tell_the_gain():
    # 1 ms each at the peak in float32, at 77 % of which they run, as on an H200.
    gain = facts.gain(tip(products(65, 19.5e9), A100, UNKNOWN))
    assert gain.likely == pytest.approx(1 / (1 - 20 / 21 * (1 - 0.77 / 8 / 0.65)), rel=0.01)
    assert gain.low < 4.6 < gain.high


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param(products(65, 1e9, size=2e9), id="memory-bounds-them"),
        pytest.param(products(510, 19.5e9), id="far-from-both-limits"),
    ],
)
def test_is_silent_on_products_that_a_higher_rate_does_not_help(kernels):
    assert tip(kernels, A100, UNKNOWN) is None


def test_further_from_both_limits_ever_less_is_likely_to_go():
    nearer, further, far = (facts.gain(tip(products(ms, 19.5e9), A100, UNKNOWN)) for ms in (240, 260, 450))
    assert nearer.likely / further.likely < 1.5
    assert nearer.likely > further.likely > far.likely > 1.0 == far.low


def test_products_as_short_as_a_launch_are_not_advised_to_change_by_nothing():
    assert tip(products(0.25, 19.5e6, size=1e3), A100, UNKNOWN) is None
