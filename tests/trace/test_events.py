"""Events go into tables by category; odd values become unknowns."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from perfdoctor.trace.columns import UNKNOWN
from perfdoctor.trace.events import WITH_DETAILS, Columns, Table, Tables, nanoseconds, table_of, whole


@pytest.mark.parametrize(
    ("category", "table"),
    [
        ("cpu_op", Table.OPS), ("Operator", Table.OPS), ("cuda_runtime", Table.CALLS), ("Runtime", Table.CALLS),
        ("cuda_driver", Table.CALLS), ("hip_runtime", Table.CALLS), ("xpu_runtime", Table.CALLS),
        ("Kernel", Table.DEVICE), ("Memcpy", Table.DEVICE), ("gpu_memset", Table.DEVICE), ("cuda_sync", Table.SYNCS),
        ("gpu_user_annotation", Table.NOTHING), ("ac2g", Table.NOTHING), ("overhead", Table.NOTHING), (None, Table.NOTHING),
    ],
)  # fmt: skip
def test_categories_of_every_age_find_their_table(category: str | None, table: Table) -> None:
    assert table_of("X", category, "name") is table


def test_arrows_and_builtin_functions_are_left_out() -> None:
    assert table_of("s", "ac2g", "ac2g") is Table.NOTHING
    assert (
        table_of("X", "python_function", "<built-in method item of Tensor object at 0x7f>") is Table.NOTHING
    )
    assert table_of("X", "python_function", "train.py(3): step") is Table.FUNCTIONS


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [
        (12, 12_000), (1.5, 1_500), (4458676418783.985, 4458676418783985), (Decimal("1712195495505582.988"), 1712195495505582988),
        ("17.25", 17_250), ("soon", None), (None, None), (float("nan"), None), (float("inf"), None), (-3, -3_000),
    ],
)  # fmt: skip
def test_microseconds_of_any_type_become_nanoseconds(microseconds: object, expected: int | None) -> None:
    assert nanoseconds(microseconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7), ("7", 7), ("-7", -7), (7.0, 7), ("stream 7", UNKNOWN), (2**70, UNKNOWN), (None, UNKNOWN)],
)
def test_what_is_no_number_of_a_column_is_unknown(value: object, expected: int) -> None:
    assert whole(value) == expected


def test_columns_keep_their_order_across_arrays_and_rows() -> None:
    columns = Columns(a="i8", b="f4")
    columns.add(1, 0.5)
    columns.extend(np.arange(2, 5), [1.0, 2.0, 3.0])
    columns.add(5, 4.0)
    assert columns.count == 5
    done = columns.done()
    assert done["a"].tolist() == [1, 2, 3, 4, 5]
    assert done["b"].tolist() == [0.5, 1.0, 2.0, 3.0, 4.0]


def test_device_and_stream_come_from_the_lane_where_arguments_are_silent() -> None:
    tables = Tables()
    for args in ({"device": 2, "stream": 20}, {}, {"device": "odd", "stream": None}):
        tables.add(
            {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 3, "tid": 7, "args": args}
        )
    device = tables.finished()["device"]
    assert device.device.tolist() == [2, 3, 3]
    assert device.stream.tolist() == [20, 7, 7]


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


def test_stacks_are_kept_frame_by_frame() -> None:
    tables = Tables()
    args = {"Call stack": "train.py(12): step;train.py(40): main", "Input Dims": []}
    tables.add(
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::item",
            "ts": 1,
            "dur": 2,
            "pid": 3,
            "tid": 7,
            "args": args,
        }
    )
    assert tables.finished()["stacks"] == [("train.py(12): step", "train.py(40): main")]
