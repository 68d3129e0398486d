from __future__ import annotations

import pytest

from perfdoctor.tips.slow_kernel import least_us
from perfdoctor.tips.slow_kernel import slow_kernel as tip
from tests.support import facts
from tests.support.rank_traces import V100, kernel, worked

# 15.7 Gflop on a V100: 1 ms at its peak in float32.
SLOW = worked(ms=500, count=50, flops=15.7e9, size=1e6)
KERNEL = kernel("odd_gemm(float*)", "matmul", 500)


def test_holds_each_call_against_the_devices_roofline():
    advice = tip(facts.kernels(KERNEL, work=(SLOW,)), V100)
    assert advice.because == (
        "100.0% of the time goes into 50 calls of aten::mm on [512, 512] x [512, 512]",
        "each takes 10,000 µs, 10 times the minimum",
        "the minimum follows from the peak rates of Tesla V100-SXM2-16GB (the maker's data sheet)",
        "the kernel is odd_gemm",
    )


def test_no_gain_goes_beyond_the_roofline():
    gain = facts.gain(tip(facts.kernels(KERNEL, work=(SLOW,)), V100))
    assert 1 < gain.low < gain.likely < gain.high < 1 / 0.2  # twice the least is left


def test_the_least_is_the_larger_of_computing_and_moving():
    assert least_us(worked(count=1, flops=15.7e9, size=1), V100) == pytest.approx(1000)
    assert least_us(worked(count=1, flops=1, size=900e6), V100) == pytest.approx(1000)
    assert least_us(worked(dtype="fp8"), V100) is None
    assert least_us(worked(size=None), V100) is None


@pytest.mark.parametrize(
    "facts_of",
    [
        pytest.param(
            facts.kernels(KERNEL, work=(worked(ms=249, count=50, flops=15.7e9),)), id="near-the-roof"
        ),
        pytest.param(facts.kernels(KERNEL, share=0.09, work=(SLOW,)), id="small"),
        pytest.param(facts.kernels(KERNEL, work=(worked(ms=2.4, count=50, flops=1e3),)), id="short-calls"),
        pytest.param(facts.kernels(KERNEL), id="no-shapes"),
    ],
)
def test_is_silent(facts_of):
    assert tip(facts_of, V100) is None
