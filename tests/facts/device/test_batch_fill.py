from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device import device as of_trace
from perfdoctor.facts.device.batch_fill import batch_fill
from perfdoctor.model.missing import Missing
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.read import read
from tests.support import facts
from tests.support.paths import TRACES
from tests.support.rank_traces import A100, kernel, matrix, worked

UNKNOWN_PEAK = Missing("the peak rates of it are not known")


def filled(name="gemm", kind="matmul", ms=100.0, unfilled=0.0, count=100):
    """A kernel of which this share of the multiprocessors has no block."""
    return replace(kernel(name, kind, ms, count), unfilled_us=unfilled * ms * 1e3)


def fill(*kernels, of_device=None, work=(), products=(), peak=UNKNOWN_PEAK):
    matrices = facts.matrices(*products) if products else None
    return batch_fill(of_device or facts.device(), facts.kernels(*kernels, work=work), matrices, peak)


def test_what_more_samples_would_use_as_well_is_fixed():
    found = fill(filled(unfilled=0.5))
    assert found.fixed == pytest.approx((0.5, 0.5, 0.6))
    assert found.is_small
    assert not fill(filled(unfilled=0.2)).is_small


def test_kernels_that_hardly_run_longer_than_they_take_to_start_are_fixed():
    found = fill(filled(ms=0.2, count=100))  # 2 us each
    assert found.unfilled == pytest.approx(0.8)
    assert found.fixed == pytest.approx((0.0, 0.8, 0.96))


def test_launching_is_fixed_and_so_are_updates_though_no_sign_of_a_small_batch():
    found = fill(
        filled(ms=60, count=1),
        filled("adam", "optimizer", ms=20),
        of_device=facts.device(host_late=0.2, data_wait=0.2),
    )
    assert found.fixed == pytest.approx((0.15 + 0.14, 0.15 + 0.2, 1.2 * 0.35), rel=1e-3)
    assert not found.is_small


def test_says_how_far_products_are_from_the_peak_where_that_is_known():
    work = (worked("aten::mm", flops=1e9, ms=1.0, count=10, dtype="float32"),)
    assert fill(filled(unfilled=0.5)).because == (
        "50% of the kernels' time is of multiprocessors that got no thread block, kernels take 1000.0 µs in the "
        "mean, the device idles 0% of the step while the host launches"
    )
    assert fill(filled(unfilled=0.5), work=work, peak=A100).because.endswith(
        "products and convolutions reach 51.3% of the device's peak"
    )


def test_products_of_few_samples_take_as_long_as_reading_their_weights():
    forward = matrix(m=8, n=4096, k=4096, ms=60)
    gradient = matrix(m=4096, n=4096, k=8, ms=40)
    found = fill(filled(count=1), products=(forward, gradient), peak=A100)
    assert found.unfilled == pytest.approx(4096 / (4096 + 16))
    assert "100% of their time goes into reading weights for few samples" in found.because


@pytest.mark.parametrize(
    "product",
    [
        pytest.param(matrix(m=4096, n=4096, k=4096, ms=100), id="many-samples"),
        pytest.param(matrix(m=2048, n=4096, k=4096, ms=100), id="limited-by-computing"),
        pytest.param(matrix(m=100_000, n=64, k=64, ms=100), id="samples-take-the-bandwidth"),
        pytest.param(matrix(m=64, n=64, k=8, ms=100), id="no-weight-that-was-read"),
        pytest.param(replace(matrix(m=8, n=4096, k=4096, ms=100), batch=16), id="a-factor-for-each-sample"),
        pytest.param(matrix(m=8, n=4096, k=4096, ms=100, dtype="unknown"), id="unknown-numbers"),
    ],
)
def test_other_products_read_no_weights_for_few_samples(product):
    assert fill(filled(count=1), products=(product,), peak=A100).unfilled < 0.01


def test_is_not_told_where_grids_are_not_recorded():
    assert isinstance(fill(kernel("gemm", "matmul", 10)), Missing)


def test_a_device_that_only_copies_has_no_fill():
    assert fill(filled("Memcpy", "copy")) is None


@pytest.mark.parametrize(
    ("name", "is_small"),
    [
        pytest.param("tl_bert_small_h100", True, id="one-text"),
        pytest.param("tl_nsfw_h100", True, id="one-picture"),
        pytest.param("param_dlrm_v100_8ranks/rank0", True, id="a-few-rows-a-device"),
        pytest.param("tl_b300_moe01", True, id="few-tokens-for-many-experts"),
        pytest.param("kineto_resnet50_nw4", False, id="32-pictures"),
        pytest.param("hta_nsres_v100", False, id="a-busy-device"),
        pytest.param("tl_qwen05b_h100", False, id="a-long-text"),
        pytest.param("tl_timesformer_h100", False, id="a-video"),
        pytest.param("tl_timesformer_mi300", False, id="a-video-on-another-makers-device"),
        pytest.param("hta_tracediff_control_a100_rank3of8", False, id="a-recommender"),
        pytest.param("param_linear_2080ti", False, id="large-layers"),
    ],
)
@pytest.mark.process
def test_recorded_devices_are_told_apart(name, is_small):
    file = TRACES / f"{name}.pt.trace.json.gz"
    if not file.exists():
        pytest.skip("the recorded traces are not here")
    trace = measure(read(file))
    device = of_trace.device_facts(trace)
    kernels, matrices = of_trace.kernel_facts(trace, device), of_trace.matrix_facts(trace, device)
    found = batch_fill(device, kernels, matrices, trace.peak)
    assert found.is_small is is_small
