from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.tips.slow_kernel import slow_kernel as tip
from perfdoctor.trace.results import DevicePeak
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


def test_half_of_the_way_to_the_roofline_is_likely_as_a_factor():
    # A million products of 4 x 4 took 54 times the minimum, and 3.7 times as long as a sum of products.
    million = worked("aten::bmm", ms=13.53, count=6, flops=1.34e8, size=201e6)
    device = DevicePeak("H200", {"float32": 67e12}, 4.8e12, "-")
    used = facts.kernels(kernel("gemmSN", "matmul", 13.53), kernel("v", "pointwise", 0.8), work=(million,))
    gain = facts.gain(tip(used, device))
    assert gain.likely == pytest.approx(4.2, abs=0.1)
    assert gain.low < 2


def test_the_line_is_that_of_a_kernel_of_the_operator_which_has_one():
    at = Location("train.py", 14, "<module>", "moved = torch.bmm(turns, points)")
    gradient, forward = kernel("gemmSN_TN", "matmul", 300), kernel("gemmSN_NN", "matmul", 200)
    used = facts.kernels(gradient, replace(forward, at=at), work=(SLOW,))
    assert tip(used, V100).at == (at,)
    assert tip(facts.kernels(gradient, forward, work=(SLOW,)), V100).at == ()


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
