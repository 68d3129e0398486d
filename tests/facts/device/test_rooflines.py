"""What a device's peak rates leave of calls whose work is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device.rooflines import (
    UNKNOWN,
    gone,
    is_far,
    least_us,
    moves_bytes,
    narrowed_doubles,
    part_of,
)
from perfdoctor.facts.script.backends import Tf32Settings
from perfdoctor.model.missing import Missing
from perfdoctor.trace.results import DevicePeak
from tests.support import facts
from tests.support.rank_traces import A100, V100, kernel, worked

NO_TF32, TF32 = Tf32Settings(False, True), Tf32Settings(True, True)
HOPPER = DevicePeak(
    "H200", {"float64": 67e12, "float32": 67e12, "tf32": 495e12, "bfloat16": 989e12}, 4.8e12, "-"
)
# 1 ms each at an A100's peak in float32, at 80 % of which they run.
LARGE = worked(ms=50 / 0.8, count=50, flops=19.5e9, size=2e8)
MOVING = worked(ms=50 / 0.8, count=50, flops=1e9, size=2.039e9)


def test_the_least_is_the_larger_of_computing_and_moving() -> None:
    assert least_us(worked(count=1, flops=15.7e9, size=1), V100) == pytest.approx(1000)
    assert least_us(worked(count=1, flops=1, size=900e6), V100) == pytest.approx(1000)
    assert least_us(worked(dtype="fp8"), V100) is None
    assert least_us(worked(size=None), V100) is None


def test_far_is_five_times_the_least_and_where_no_limit_is_known_nothing_is() -> None:
    assert not is_far(worked(ms=249, count=50, flops=15.7e9), V100)
    assert is_far(worked(ms=251, count=50, flops=15.7e9), V100)
    assert not is_far(worked(ms=251, count=50, flops=15.7e9, dtype="float64"), V100)


def test_bytes_bound_what_has_few_operations_for_each() -> None:
    assert (moves_bytes(LARGE, A100), moves_bytes(MOVING, A100)) == (False, True)
    assert not moves_bytes(worked(size=None), A100)


def test_a_part_is_by_time() -> None:
    assert part_of([LARGE], [LARGE, MOVING]) == pytest.approx(0.5)
    assert part_of([], []) == 0.0


def test_a_large_product_goes_to_what_aligned_ones_reach_at_the_other_rate() -> None:
    low, likely, high = gone([LARGE], A100, "tf32") or ()
    assert likely == pytest.approx(1 - 0.8 / 8 / 0.65)
    assert low < likely < high < 1 - 0.8 / 8


def test_what_bytes_bound_gains_by_fewer_of_them_alone() -> None:
    assert gone([MOVING], A100, "tf32") == (0, 0, 0)
    assert gone([MOVING], A100, "bfloat16", 0.5) == pytest.approx((0, 1 - 0.5 * 0.8 / 0.65, 0.5), abs=0.001)


def test_nothing_is_sure_of_what_is_far_from_both_limits_or_as_short_as_a_launch() -> None:
    assert gone([replace(LARGE, us=6e5)], A100, "tf32") == (0, 0, 0)
    assert gone([worked(ms=0.25, count=50, flops=90e6, size=1e5)], A100, "tf32") == (0, 0, 0)


def test_from_five_to_ten_times_the_least_ever_less_is_likely_to_go() -> None:
    shares = [
        gone([replace(LARGE, us=5e4 * times)], A100, "bfloat16", 0.5) or () for times in (4.99, 5.01, 7.5, 11)
    ]
    assert shares[0][1] == pytest.approx(shares[1][1], abs=0.01)
    assert shares[2][1] == pytest.approx(shares[0][1] / 2, rel=0.02)
    assert shares[3] == pytest.approx((0.0, 0.0, 0.5))


@pytest.mark.parametrize(("uses", "dtype"), [([], "tf32"), ([LARGE], "fp8")])
def test_without_work_or_a_rate_nothing_is_told(uses, dtype) -> None:
    assert gone(uses, A100, dtype) is None


# Near an H200's six products of 4096 x 4096, 1024 samples: 40 ms of 3 steps, 1.5 times the minimum.
WIDE = worked(ms=40.1, count=51, dtype="float64", flops=34.4e9, size=201e6)
DOUBLES = facts.kernels(
    kernel("d884gemm", "matmul", 40.1, dtype="float64", tensor=True),
    kernel("vectorized<double>", "pointwise", 3.4, dtype="float64"),
    work=(WIDE,),
)


def test_doubles_become_as_fast_as_rates_and_bytes_allow() -> None:
    products, others = 40.1 / 43.5, 3.4 / 43.5
    gained = narrowed_doubles(DOUBLES, HOPPER, TF32).gone or ()
    reached = 51 * 34.4e9 / (0.65 * 495e12) * 1e3 / 40.1
    assert gained[1] == pytest.approx(products * (1 - reached) + others * 0.5)
    # measured: 5.86 times as fast
    assert 1 / (1 - gained[0]) < 5.86 < 1 / (1 - gained[2])


def test_without_tf32_a_device_of_equal_rates_gains_hardly_more_than_bytes() -> None:
    gained = narrowed_doubles(DOUBLES, HOPPER, NO_TF32).gone or ()
    assert gained[2] < 0.25


def test_where_the_rate_of_doubles_is_not_published_that_of_float32_tells() -> None:
    geforce = DevicePeak("RTX 4090", {"float32": 82.6e12, "tf32": 82.6e12}, 1008e9, "-")
    slow = facts.kernels(
        kernel("dgemm", "matmul", 1350, dtype="float64"),
        work=(worked(ms=1350, count=51, dtype="float64", flops=34.4e9, size=201e6),),
    )
    assert (narrowed_doubles(slow, geforce, NO_TF32).gone or ())[1] > 0.95


def test_doubles_far_from_both_limits_get_other_kernels() -> None:
    ten_times = replace(WIDE, us=10 * WIDE.us)
    for work in ((ten_times,), (replace(WIDE, us=4 * WIDE.us), ten_times)):
        slow = facts.kernels(kernel("dgrad", "matmul", 400, dtype="float64"), work=work)
        low, likely, high = narrowed_doubles(slow, HOPPER, NO_TF32).gone or ()
        assert low >= UNKNOWN[0]
        assert likely >= UNKNOWN[1]
        assert high <= UNKNOWN[2]


def test_without_shapes_products_have_the_range_of_devices() -> None:
    gained = narrowed_doubles(replace(DOUBLES, work=()), HOPPER, TF32).gone or ()
    assert gained[1] == pytest.approx(40.1 / 43.5 * UNKNOWN[1] + 3.4 / 43.5 * 0.5)


@pytest.mark.parametrize(
    ("kernels", "peak"),
    [
        (None, Missing("no device")),
        (DOUBLES, Missing("its rates are not known")),
        (Missing("no window"), HOPPER),
        (facts.kernels(kernel("sgemm", "matmul", 10)), HOPPER),
    ],
)
def test_nothing_is_told_of_no_device_no_rates_or_no_doubles(kernels, peak) -> None:
    assert narrowed_doubles(kernels, peak, TF32).gone is None
