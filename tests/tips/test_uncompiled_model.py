from __future__ import annotations

import pytest

from perfdoctor.tips.uncompiled_model import uncompiled_model as tip
from tests import facts
from tests.ranktraces import kernel

POINTWISE = kernel("vectorized_elementwise_kernel", "pointwise", 30, count=3_000)
HEAVY = kernel("gemm", "matmul", 70)
FUSED = kernel("triton_poi_fused_add_relu_0", "pointwise", 30)


def test_counts_the_kernels_that_could_be_fused():
    advice = tip(facts.kernels(POINTWISE, HEAVY))
    assert advice.because == (
        "30.0% of the time goes into 3,000 pointwise, normalising and reducing kernels",
        "they take 10.0 µs each, and none was written by a compiler",
    )
    assert advice.tweak == "--compile"


def test_at_best_four_in_five_of_their_bytes_go():
    gain = facts.gain(tip(facts.kernels(POINTWISE, HEAVY)))
    assert gain.high == pytest.approx(1 / (1 - 0.3 * 0.75))


def test_what_runs_beside_other_computing_brings_nothing():
    beside = kernel("vectorized", "pointwise", 50, beside=50), kernel("gemm", "matmul", 50)
    assert tip(facts.kernels(*beside)) is None


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param(facts.kernels(HEAVY), id="nothing-pointwise"),
        pytest.param(facts.kernels(POINTWISE, FUSED), id="compiled-already"),
        pytest.param(facts.kernels(POINTWISE, HEAVY, share=0.3), id="little"),
    ],
)
def test_is_silent(kernels):
    assert tip(kernels) is None
