from __future__ import annotations

import pytest

from perfdoctor.facts.device.rooflines import UNKNOWN, NarrowedDoubles
from perfdoctor.facts.script.double_precision import double_precision, of_kernels
from perfdoctor.model.measured import ThreadFacts
from tests.support import facts
from tests.support.facts import run, step
from tests.support.rank_traces import kernel
from tests.support.script_facts import at, model

COMPUTES = step(forward=4, backward=4, optimizer=1, other=1)
NONE = NarrowedDoubles(None)
KNOWN = NarrowedDoubles((0.75, 0.83, 0.9))
LARGE, SMALL = (ThreadFacts(1, None, per_module_s=each_s) for each_s in (0.01, 0.0001))


@pytest.mark.parametrize(("threads", "gone"), [(LARGE, 0.45), (SMALL, 0.2)])
def test_on_a_cpu_small_operations_gain_less_and_none_more_than_half(threads, gone):
    found = double_precision(run(), COMPUTES, model(1.0), threads, NONE)
    assert found.computing == pytest.approx(0.9)
    assert found.gone[1:] == pytest.approx((0.9 * gone, 0.45))


def test_on_a_device_its_rates_tell_where_they_are_known():
    assert double_precision(run(device="H200"), COMPUTES, model(1.0), LARGE, KNOWN).gone == KNOWN.gone


def test_on_a_device_it_may_be_nearly_all():
    found = double_precision(run(device="GeForce"), COMPUTES, model(1.0), LARGE, NONE)
    assert found.gone[2] == pytest.approx(0.9 * 0.95)


def test_the_model_tells_how_many_parameters_are_wide_and_why():
    widened = (("Module.double", at(27)),)
    found = double_precision(run(), COMPUTES, model(0.7, widened=widened), LARGE, NONE)
    assert (found.share, found.parameters, found.at, found.widened) == (0.7, 1_000_000, at(25), widened)


def test_of_a_trace_kernels_that_compute_tell():
    kernels = facts.kernels(
        kernel("d884gemm", "matmul", 60, dtype="float64"),
        kernel("vectorized", "pointwise", 20, dtype="float32"),
        kernel("Memcpy HtoD", "copy", 20),
        share=0.8,
    )
    found = of_kernels(kernels, NONE)
    assert (found.share, found.parameters) == (0.75, None)
    assert found.gone == pytest.approx(tuple(60e3 * kernels.scale * gone for gone in UNKNOWN))
    assert of_kernels(kernels, KNOWN).gone == KNOWN.gone


def test_of_a_trace_without_doubles_there_is_nothing_to_tell():
    assert of_kernels(facts.kernels(kernel("gemm", "matmul", 60, dtype="float32")), NONE) is None
