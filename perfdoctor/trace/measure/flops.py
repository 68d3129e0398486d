"""Counts the floating-point operations and the bytes of an operator, from the shapes of its inputs."""

from __future__ import annotations

import ast
import math
import re

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.dtypes import BYTES, input_type
from perfdoctor.trace.parse.columns import ELEMENTS, Inputs

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """`batch` products C[m, n] = A[m, k] B[k, n]."""

    batch: int
    m: int
    n: int
    k: int


@dataclass(frozen=True)
class CallWork:
    """What one call of an operator must compute and move at least."""

    flops: float
    bytes: float | None  # inputs and outputs once; None where the number type is not known
    dtype: str | None
    product: Product | None = None


# Position of A and B among the inputs.
PRODUCTS = {
    "aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::_int_mm": (0, 1), "aten::_scaled_mm": (0, 1),
    "aten::addmm": (1, 2), "aten::baddbmm": (1, 2), "aten::_addmm_activation": (1, 2), "aten::matmul": (0, 1),
}  # fmt: skip
LINEAR = re.compile(r"aten::linear|(?!aten::).*(gemm|linear).*")  # x[..., k] and weight[n, k]


@dataclass(frozen=True)
class _AttentionArguments:
    query: int  # its position; key and value follow
    heads_first: bool  # [batch, heads, sequence, size], else [batch, sequence, heads, size]
    products: float  # in units of one product of queries with keys
    causal: int  # position of the flag, or of the number of the mask's kind


# Two products forward; backward recomputes one and adds four: 2.5 times as much (Dao, FlashAttention-2, 4.1).
ATTENTION = {
    "aten::_flash_attention_forward": _AttentionArguments(0, False, 2, 8),
    "aten::_flash_attention_backward": _AttentionArguments(1, False, 5, 11),
    "aten::_efficient_attention_forward": _AttentionArguments(0, False, 2, 9),
    "aten::_scaled_dot_product_flash_attention": _AttentionArguments(0, True, 2, 4),
    "aten::_scaled_dot_product_flash_attention_backward": _AttentionArguments(1, True, 5, 11),
    "aten::_scaled_dot_product_efficient_attention": _AttentionArguments(0, True, 2, 6),
    "aten::_scaled_dot_product_efficient_attention_backward": _AttentionArguments(1, True, 5, 11),
    "aten::_scaled_dot_product_cudnn_attention": _AttentionArguments(0, True, 2, 6),
    "aten::_scaled_dot_product_cudnn_attention_backward": _AttentionArguments(1, True, 5, 14),
    "aten::scaled_dot_product_attention": _AttentionArguments(0, True, 2, 5),
}
CAUSAL = ("True", "1", "2")  # masks of a number count from the upper left corner or from the lower right


@dataclass(frozen=True)
class _Forward:
    padding: int  # positions of the arguments
    stride: int
    dilation: int
    transposed: int | None = None  # of the flag; the padding of the output and the number of groups follow


FORWARD = {
    "aten::convolution": _Forward(4, 3, 5, 6), "aten::_convolution": _Forward(4, 3, 5, 6),
    "aten::cudnn_convolution": _Forward(2, 3, 4), "aten::miopen_convolution": _Forward(3, 4, 5),
    "aten::cudnn_convolution_relu": _Forward(4, 3, 5), "aten::conv2d": _Forward(4, 3, 5),
    "aten::conv1d": _Forward(4, 3, 5), "aten::conv3d": _Forward(4, 3, 5),
}  # fmt: skip
# Position of the output's gradient and of the weight, how many gradients are computed at most, and where it
# stands which: [of the input, of the weight, ...].
BACKWARD = {
    "aten::convolution_backward": (0, 2, 2, 10),
    "aten::cudnn_convolution_backward_input": (1, 2, 1, None),
    "aten::cudnn_convolution_backward": (1, 2, 2, None),
    "aten::miopen_convolution_backward": (1, 2, 2, None),
}
TRANSPOSED = 7  # position of the flag of aten::convolution_backward


def work(op: str, inputs: Inputs) -> CallWork | None:
    """What one call of an operator costs; None for operators and inputs that this does not know.

    A product takes 2 m n k operations; a convolution 2 for each output and each weight that reaches it, a
    transposed one 2 for each input and each weight that it meets; an attention layer 2 for each query, key
    and feature, and each of its products, half of it where causal: the counts of torch.utils.flop_counter,
    which knows no causality.
    """
    if op in PRODUCTS:
        return _product(inputs, *PRODUCTS[op])
    if op in ATTENTION:
        return _attention(inputs, ATTENTION[op])
    if op in FORWARD:
        return _forward(inputs, FORWARD[op])
    if op in BACKWARD:
        return _backward(inputs, *BACKWARD[op])
    return _linear(inputs) if LINEAR.fullmatch(op) else None


def _tensor(inputs: Inputs, position: int) -> Shape:
    return inputs.shapes[position] if position < len(inputs.shapes) else ()


def _dtype(inputs: Inputs, position: int) -> str | None:
    return input_type(inputs.types[position]) if position < len(inputs.types) else None


def _bytes(dtype: str | None, *shapes: Shape) -> float | None:
    return BYTES[dtype] * sum(math.prod(shape) for shape in shapes) if dtype else None


def _product(inputs: Inputs, left: int, right: int) -> CallWork | None:
    a, b = _tensor(inputs, left), _tensor(inputs, right)
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return None
    batch = max(math.prod(a[:-2]), math.prod(b[:-2]))
    return _matrices(Product(batch, a[-2], b[-1], a[-1]), a, b, _dtype(inputs, left))


def _linear(inputs: Inputs) -> CallWork | None:
    x, weight = _tensor(inputs, 0), _tensor(inputs, 1)
    if len(x) < 2 or len(weight) != 2 or x[-1] != weight[-1]:
        return None
    product = Product(1, math.prod(x[:-1]), weight[0], x[-1])
    return _matrices(product, x, weight, _dtype(inputs, 0))


def _matrices(product: Product, a: Shape, b: Shape, dtype: str | None) -> CallWork | None:
    flops = 2.0 * product.batch * product.m * product.n * product.k
    moved = _bytes(dtype, a, b, (product.batch, product.m, product.n))
    return CallWork(flops, moved, dtype, product) if flops else None


def _attention(inputs: Inputs, layout: _AttentionArguments) -> CallWork | None:
    query, key, value = (_tensor(inputs, layout.query + offset) for offset in range(3))
    if len(query) != 4 or len(key) != 4 or len(value) != 4:
        return None
    keys = key[2] if layout.heads_first else key[1]
    causal = layout.causal < len(inputs.values) and inputs.values[layout.causal] in CAUSAL
    flops = 2.0 * math.prod(query) * keys * layout.products * (0.5 if causal else 1.0)
    dtype = _dtype(inputs, layout.query)
    return CallWork(flops, _bytes(dtype, query, key, value, query), dtype)


def _forward(inputs: Inputs, positions: _Forward) -> CallWork | None:
    data, weight = _tensor(inputs, 0), _tensor(inputs, 1)
    padding = _list(inputs, positions.padding)
    stride, dilation = _list(inputs, positions.stride), _list(inputs, positions.dilation)
    if len(data) < 3 or len(data) != len(weight) or not padding or not stride or not dilation:
        return None
    if _is_true(inputs, positions.transposed):
        return _transposed(inputs, padding, stride, dilation, (positions.transposed or 0) + 1)
    axes = len(data) - 2
    padding, stride, dilation = padding * axes, stride * axes, dilation * axes  # one number stands for all
    size = tuple(
        (data[2 + axis] + 2 * padding[axis] - dilation[axis] * (weight[2 + axis] - 1) - 1) // stride[axis] + 1
        for axis in range(axes)
    )
    return _convolution(inputs, data, weight, (data[0], weight[0], *size), 1)


def _transposed(
    inputs: Inputs, padding: list[int], stride: list[int], dilation: list[int], behind: int
) -> CallWork | None:
    """A transposed convolution: an ordinary one's gradient by its input. `behind`: what follows the flag."""
    data, weight = _tensor(inputs, 0), _tensor(inputs, 1)
    added, groups = _list(inputs, behind), inputs.values[behind + 1 : behind + 2]
    if not added or not groups or not re.fullmatch(r"[0-9]{1,9}", groups[0]):
        return None
    axes = len(data) - 2
    padding, stride, dilation, added = padding * axes, stride * axes, dilation * axes, added * axes
    size = tuple(
        (data[2 + axis] - 1) * stride[axis] - 2 * padding[axis] + dilation[axis] * (weight[2 + axis] - 1)
        + added[axis] + 1
        for axis in range(axes)
    )  # fmt: skip
    return _convolution(inputs, (data[0], weight[1] * int(groups[0]), *size), weight, data, 1)


def _backward(
    inputs: Inputs, output: int, weight: int, gradients: int, wanted: int | None
) -> CallWork | None:
    out, data, kernel = _tensor(inputs, output), _tensor(inputs, 1 - output), _tensor(inputs, weight)
    if output == 0 and _is_true(inputs, TRANSPOSED):
        out, data = data, out
    if len(out) < 3 or len(out) != len(kernel):
        return None
    return _convolution(inputs, data, kernel, out, _gradients(inputs, wanted, gradients))


def _gradients(inputs: Inputs, wanted: int | None, most: int) -> int:
    """How many of the gradients by input and weight are computed; the first layer's input needs none."""
    told = inputs.values[wanted : wanted + 1] if wanted is not None else ()
    flags = told[0].strip("[]").split(", ")[:2] if told and told[0].startswith("[") else []
    return flags.count("True") if len(flags) == 2 else most


def _convolution(inputs: Inputs, data: Shape, weight: Shape, out: Shape, products: int) -> CallWork | None:
    """`weight` is [outputs, inputs per group, ...]: what each output sums over."""
    if min((*out, *weight)) <= 0 or max(math.prod(data), math.prod(out)) >= ELEMENTS:
        return None
    flops = 2.0 * math.prod(out) * math.prod(weight[1:]) * products
    dtype = _dtype(inputs, 0) or _dtype(inputs, 1)
    moved = _bytes(dtype, data, weight, out)
    return CallWork(flops, moved * products if moved is not None else None, dtype)


def _is_true(inputs: Inputs, position: int | None) -> bool:
    return position is not None and inputs.values[position : position + 1] == ("True",)


def _list(inputs: Inputs, position: int) -> list[int] | None:
    """A recorded list of whole numbers, such as a stride; None where it is not recorded."""
    if position >= len(inputs.values):
        return None
    try:
        value = ast.literal_eval(inputs.values[position])
    except (ValueError, SyntaxError):
        return None
    good = isinstance(value, list) and value and all(isinstance(size, int) and size >= 0 for size in value)
    return value if good else None
