"""Tells what kind of model ran, by its kernels and, where shapes were recorded, its convolutions' weights."""

from __future__ import annotations

import math

from perfdoctor.facts.device.device import NOT_COMPUTE, KernelFacts
from perfdoctor.facts.predict.published_gains import MainWork, ModelKind
from perfdoctor.trace.results import KernelClass, WorkUse

MAIN = 0.5  # of the products' time is in convolutions where a model is called convolutional
SOME = 0.1  # of the convolutions' time makes a model one of grouped, or of depth-wise, convolutions
SMALL_US = 10.0  # a product's mean time on the device; below it launching costs as much as computing
ONE_D = 3  # dimensions of the weight of a convolution over a sequence
BACKWARD = "backward"
OUTPUT_FIRST = "aten::convolution_backward"  # its gradient of the output; others begin with the input


def computing(kernels: KernelFacts) -> float:
    """Share of the judged time in which the device computes."""
    return min(1.0, kernels.share(*(kind for kind in KernelClass if kind not in NOT_COMPUTE)))


def model_kind(kernels: KernelFacts) -> ModelKind:
    """The kind of model; of convolutions without shapes it is not known whether they are grouped."""
    convolving = kernels.share(KernelClass.CONVOLUTION)
    products = convolving + kernels.share(KernelClass.MATMUL, KernelClass.ATTENTION)
    if products <= 0:
        return ModelKind(None)
    if _mean_us(kernels) < SMALL_US:
        return ModelKind(MainWork.SMALL)
    return ModelKind(MainWork.MATRICES) if convolving < MAIN * products else _by_weights(kernels)


def grouped_share(kernels: KernelFacts) -> float:
    """Of the time of convolutions with known shapes, the share of grouped ones that are not depth-wise."""
    uses = _convolutions(kernels)
    total_us = sum(use.us for use in uses)
    return sum(use.us for use in uses if (_width(use) or 0) > 1) / total_us if total_us > 0 else 0.0


def _mean_us(kernels: KernelFacts) -> float:
    heavy = (KernelClass.CONVOLUTION, KernelClass.MATMUL, KernelClass.ATTENTION)
    uses = [use for use in kernels.kernels if use.kind in heavy]
    return sum(use.us for use in uses) / max(1, sum(use.count for use in uses))


def _by_weights(kernels: KernelFacts) -> ModelKind:
    uses = _convolutions(kernels)
    total_us = sum(use.us for use in uses)
    if total_us <= 0:
        return ModelKind(MainWork.UNSHAPED)
    if sum(use.us for use in uses if len(_weight(use)) == ONE_D) >= MAIN * total_us:
        return ModelKind(MainWork.SMALL)
    widths = [(width, use.us) for use in uses if (width := _width(use)) is not None]
    grouped = [(width, us) for width, us in widths if width > 1]
    grouped_us = sum(us for _, us in grouped)
    if grouped_us >= SOME * total_us:
        mean = sum(us * math.log(width) for width, us in grouped) / grouped_us
        return ModelKind(MainWork.GROUPED, math.exp(mean))
    depthwise_us = sum(us for width, us in widths if width == 1)
    return ModelKind(MainWork.DEPTHWISE if depthwise_us >= SOME * total_us else MainWork.CONVOLUTIONS)


def _convolutions(kernels: KernelFacts) -> list[WorkUse]:
    """Those with known shapes: their gradients where there are any, which tell grouped from transposed."""
    uses = [use for use in kernels.work if use.kind is KernelClass.CONVOLUTION and len(use.shapes) >= 2]
    backward = [use for use in uses if BACKWARD in use.op and len(use.shapes) >= 3]
    return backward or [use for use in uses if BACKWARD not in use.op]


def _weight(use: WorkUse) -> tuple[int, ...]:
    """[outputs, inputs of a group, ...]"""
    return use.shapes[2 if BACKWARD in use.op else 1]


def _width(use: WorkUse) -> int | None:
    """Channels of a group; None where the convolution has one group only, or is transposed."""
    weight, (first, second) = _weight(use), (use.shapes[0][1], use.shapes[1][1])
    inputs = second if use.op == OUTPUT_FIRST else first
    outputs = weight[0] if BACKWARD not in use.op else first + second - inputs
    width = weight[1]
    return width if outputs == weight[0] and 0 < width < inputs and inputs % width == 0 else None
