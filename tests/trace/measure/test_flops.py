from __future__ import annotations

import pytest

from perfdoctor.trace.measure.flops import Product, work
from perfdoctor.trace.parse.columns import Inputs

HALF = ("c10::Half",) * 8


def inputs(*shapes: tuple[int, ...], types: tuple[str, ...] = HALF, values: tuple[str, ...] = ()) -> Inputs:
    return Inputs(shapes, types, values)


@pytest.mark.parametrize(
    ("op", "given", "product"),
    [
        ("aten::mm", inputs((3, 5), (5, 7)), Product(1, 3, 7, 5)),
        ("aten::addmm", inputs((7,), (3, 5), (5, 7)), Product(1, 3, 7, 5)),
        ("aten::bmm", inputs((4, 3, 5), (4, 5, 7)), Product(4, 3, 7, 5)),
        ("aten::baddbmm", inputs((4, 3, 7), (4, 3, 5), (4, 5, 7)), Product(4, 3, 7, 5)),
        ("aten::matmul", inputs((2, 4, 3, 5), (5, 7)), Product(8, 3, 7, 5)),
        ("aten::linear", inputs((2, 3, 5), (7, 5), (7,)), Product(1, 6, 7, 5)),
        ("vllm::rocm_unquantized_gemm", inputs((3, 5), (7, 5)), Product(1, 3, 7, 5)),
    ],
)
def test_matrix_products(op: str, given: Inputs, product: Product) -> None:
    found = work(op, given)
    assert found is not None
    assert found.product == product
    assert found.flops == 2 * product.batch * product.m * product.n * product.k
    assert found.dtype == "float16"


def test_a_product_moves_its_inputs_and_its_output_once() -> None:
    found = work("aten::mm", inputs((3, 5), (5, 7)))
    assert found is not None
    assert found.bytes == 2 * (15 + 35 + 21)


@pytest.mark.parametrize(
    ("op", "given"),
    [
        ("aten::mm", inputs((3, 5), (6, 7))),
        ("aten::mm", inputs((3, 5))),
        ("aten::mm", inputs((0, 5), (5, 7))),
        ("aten::linear", inputs((5,), (7, 5))),
        ("aten::add", inputs((3, 5), (3, 5))),
        ("aten::cudnn_convolution", inputs((8, 3, 32, 32), (16, 3, 3, 3))),  # the stride was not recorded
        ("aten::_flash_attention_forward", inputs((3, 5), (3, 5), (3, 5))),
        ("aten::conv1d", inputs((8, 3, 9), (4, 3, 3), values=("", "", "", "[1]", "[9e999]", "[1]"))),
        ("aten::conv1d", inputs((8, 3, 9), (4, 3, 3), values=("", "", "", "[1]", f"[{10**999}]", "[1]"))),
        (
            "aten::convolution",
            inputs((8, 4, 9), (4, 3, 3), values=("",) * 3 + ("[1]",) * 3 + ("True", "[1]", "9" * 5000)),
        ),
    ],
)
def test_what_cannot_be_told_is_not_guessed(op: str, given: Inputs) -> None:
    assert work(op, given) is None


def test_a_type_that_is_not_known_leaves_the_bytes_open() -> None:
    found = work("aten::mm", inputs((3, 5), (5, 7), types=()))
    assert found is not None
    assert (found.dtype, found.bytes) == (None, None)


# 8 images of 3 x 32 x 32 with 16 filters of 3 x 3, stride 2, padding 1: 16 x 16 outputs.
FORWARD = 2 * (8 * 16 * 16 * 16) * (3 * 3 * 3)


def test_a_convolution_counts_each_weight_of_each_output() -> None:
    values = ("", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
    found = work("aten::convolution", inputs((8, 3, 32, 32), (16, 3, 3, 3), (16,), values=values))
    assert found is not None
    assert found.flops == FORWARD
    assert found.bytes == 2 * (8 * 3 * 32 * 32 + 16 * 27 + 8 * 16 * 16 * 16)


def test_one_number_stands_for_all_axes() -> None:
    values = ("", "", "[1]", "[2]", "[1]")
    found = work("aten::cudnn_convolution", inputs((8, 3, 32, 32), (16, 3, 3, 3), values=values))
    assert found is not None
    assert found.flops == FORWARD


def test_backward_of_a_convolution_computes_two_gradients() -> None:
    shapes = ((8, 16, 16, 16), (8, 3, 32, 32), (16, 3, 3, 3))
    found = work("aten::convolution_backward", inputs(*shapes))
    assert found is not None
    assert found.flops == 2 * FORWARD


@pytest.mark.parametrize(
    ("wanted", "count"), [("[False, True, True]", 1), ("[True, True, False]", 2), ("", 2)]
)
def test_a_gradient_that_nobody_needs_is_not_computed(wanted: str, count: int) -> None:
    shapes = ((8, 16, 16, 16), (8, 3, 32, 32), (16, 3, 3, 3))
    found = work("aten::convolution_backward", inputs(*shapes, values=("",) * 10 + (wanted,)))
    assert found is not None
    assert found.flops == count * FORWARD


def test_a_transposed_convolution_is_the_gradient_of_an_ordinary_one() -> None:
    values = ("", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "1")
    for op in ("aten::convolution", "aten::_convolution"):
        found = work(op, inputs((8, 16, 16, 16), (16, 3, 3, 3), values=values))
        assert found is not None
        assert found.flops == FORWARD
        assert found.bytes == 2 * (8 * 3 * 32 * 32 + 16 * 27 + 8 * 16 * 16 * 16)
    untold = inputs((8, 16, 16, 16), (16, 3, 3, 3), values=values[:7])
    assert work("aten::convolution", untold) is None
    shapes = ((8, 3, 32, 32), (8, 16, 16, 16), (16, 3, 3, 3))
    backward = work("aten::convolution_backward", inputs(*shapes, values=("",) * 7 + ("True",)))
    assert backward is not None
    assert backward.flops == 2 * FORWARD


def test_groups_leave_fewer_inputs_to_each_output() -> None:
    values = ("", "", "", "[1, 1]", "[1, 1]", "[1, 1]")
    found = work("aten::convolution", inputs((1, 8, 4, 4), (8, 1, 3, 3), values=values))
    assert found is not None
    assert found.flops == 2 * (8 * 4 * 4) * 9


def test_attention_is_two_products_forward_and_five_backward() -> None:
    heads_first = inputs((2, 4, 10, 16), (2, 4, 12, 16), (2, 4, 12, 16))
    forward = work("aten::_scaled_dot_product_flash_attention", heads_first)
    assert forward is not None
    assert forward.flops == 4 * 2 * 4 * 10 * 12 * 16
    heads_third = inputs((2, 10, 4, 16), (2, 12, 4, 16), (2, 12, 4, 16))
    same = work("aten::_flash_attention_forward", heads_third)
    assert same is not None
    assert same.flops == forward.flops
    backward = work(
        "aten::_flash_attention_backward",
        inputs((2, 10, 4, 16), (2, 10, 4, 16), (2, 12, 4, 16), (2, 12, 4, 16)),
    )
    assert backward is not None
    assert backward.flops == 2.5 * forward.flops


def test_causal_attention_does_half() -> None:
    shapes = ((2, 10, 4, 16),) * 3
    values = ("",) * 8
    full = work("aten::_flash_attention_forward", inputs(*shapes, values=(*values, "False")))
    causal = work("aten::_flash_attention_forward", inputs(*shapes, values=(*values, "True")))
    assert full is not None
    assert causal is not None
    assert causal.flops == full.flops / 2


@pytest.mark.parametrize(("mask", "part"), [("0", 1.0), ("1", 0.5), ("2", 0.5)])
def test_memory_efficient_attention_numbers_its_masks(mask: str, part: float) -> None:
    found = work(
        "aten::_efficient_attention_forward", inputs(*((2, 10, 4, 16),) * 3, values=("",) * 9 + (mask,))
    )
    assert found is not None
    assert found.flops == 4 * 2 * 10 * 4 * 16 * 10 * part
