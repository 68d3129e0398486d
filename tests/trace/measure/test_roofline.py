from __future__ import annotations

import pytest

from perfdoctor.trace.measure.roofline import roofs
from perfdoctor.trace.results import ClassUse, DevicePeak, KernelClass

PEAK = DevicePeak("A", {"bfloat16": 100e12, "float32": 10e12}, 1e12, "a data sheet")


def use(**given: object) -> ClassUse:
    fields = {"kind": KernelClass.MATMUL, "count": 1, "us": 100.0, "tensor_core_us": 100.0, "flops": 4e9,
              "flops_us": 100.0, "bytes": 10e6, "bytes_us": 100.0, "dtypes": {"bfloat16": 90.0, "float32": 10.0}}  # fmt: skip
    return ClassUse(**{**fields, **given})  # type: ignore[arg-type]


def test_shares_are_of_the_peak_of_the_type_that_took_longest() -> None:
    (roof,) = roofs((use(),), PEAK)
    assert (roof.dtype, roof.flops_per_s, roof.bytes_per_s) == ("bfloat16", 4e13, 1e11)
    assert (roof.flops_share, roof.bytes_share) == (pytest.approx(0.4), pytest.approx(0.1))
    assert (roof.bound, roof.least_us) == ("compute", pytest.approx(40.0))


def test_work_that_moves_more_than_it_computes_is_bound_by_memory() -> None:
    (roof,) = roofs((use(flops=1e8, bytes=50e6),), PEAK)
    assert (roof.bound, roof.least_us) == ("memory", pytest.approx(50.0))


def test_without_the_devices_limits_only_rates_are_told() -> None:
    (roof,) = roofs((use(),), None)
    assert roof.flops_per_s == 4e13
    assert (roof.flops_share, roof.bytes_share, roof.bound, roof.least_us) == (None, None, None, None)


def test_a_type_without_a_limit_has_no_share_of_it() -> None:
    (roof,) = roofs((use(dtypes={"complex64": 100.0}),), PEAK)
    assert (roof.flops_share, roof.bound) == (None, None)
    assert roof.bytes_share == pytest.approx(0.1)


def test_classes_without_known_work_are_left_out() -> None:
    assert roofs((use(flops=None, flops_us=0.0),), PEAK) == ()
