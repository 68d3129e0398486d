"""Events go into tables by category; odd values become unknowns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from perfdoctor.trace.parse.columns import UNKNOWN
from perfdoctor.trace.parse.events import WITH_DETAILS, EventTable, nanoseconds, table_of, whole


@pytest.mark.parametrize(
    ("category", "table"),
    [
        ("cpu_op", EventTable.OPS), ("Operator", EventTable.OPS), ("cuda_runtime", EventTable.CALLS), ("Runtime", EventTable.CALLS),
        ("cuda_driver", EventTable.CALLS), ("hip_runtime", EventTable.CALLS), ("xpu_runtime", EventTable.CALLS),
        ("Kernel", EventTable.DEVICE), ("Memcpy", EventTable.DEVICE), ("gpu_memset", EventTable.DEVICE), ("cuda_sync", EventTable.SYNCS),
        ("gpu_user_annotation", EventTable.NOTHING), ("ac2g", EventTable.NOTHING), ("overhead", EventTable.NOTHING), (None, EventTable.NOTHING),
    ],
)  # fmt: skip
def test_categories_of_every_age_find_their_table(category: str | None, table: EventTable) -> None:
    assert table_of("X", category, "name") is table


def test_arrows_and_builtin_functions_are_left_out() -> None:
    assert table_of("s", "ac2g", "ac2g") is EventTable.NOTHING
    assert (
        table_of("X", "python_function", "<built-in method item of Tensor object at 0x7f>")
        is EventTable.NOTHING
    )
    assert table_of("X", "python_function", "train.py(3): step") is EventTable.FUNCTIONS


@pytest.mark.parametrize(
    "microseconds",
    [
        [12, 1.5, -3, 4458676418783.985],
        [4458676418783.985, 8796093022207.998],
        [Decimal("1712195495505582.988"), 12],
        ["17.25", "12", 4],
    ],
)
def test_microseconds_of_any_type_become_nanoseconds(microseconds: list[Any]) -> None:
    value, good = nanoseconds(microseconds)
    assert value.tolist() == [round(Decimal(str(number)) * 1000) for number in microseconds]
    assert good.all()


@pytest.mark.parametrize("odd", ["soon", None, float("nan"), float("inf"), 1e300, 10**40, [1], {}, "NaN"])
def test_what_is_no_time_is_not_good(odd: object) -> None:
    for microseconds in ([odd, 5], [odd, 5.0], [odd]):
        value, good = nanoseconds(microseconds)
        assert good.tolist() == [False, True][: len(microseconds)]
        assert value[1:].tolist() == [5000][: len(microseconds) - 1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7), ("7", 7), ("-7", -7), (7.0, 7), ("stream 7", UNKNOWN), (2**70, UNKNOWN), (None, UNKNOWN)],
)
def test_what_is_no_number_of_a_column_is_unknown(value: object, expected: int) -> None:
    assert whole(value) == expected


@pytest.mark.parametrize(
    "name", ["aten::mm", "aten::addmm", "aten::baddbmm", "aten::cudnn_convolution", "aten::convolution_backward", "aten::item",
             "aten::_scaled_dot_product_flash_attention", "aten::to", "aten::linear", "flash_attn::_flash_attn_forward"]
)  # fmt: skip
def test_shapes_are_kept_of_operators_worth_it(name: str) -> None:
    assert WITH_DETAILS.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["aten::add", "aten::empty", "autograd::engine::evaluate_function: AddBackward0"]
)
def test_shapes_of_the_rest_are_not_kept(name: str) -> None:
    assert not WITH_DETAILS.fullmatch(name)
