"""Convolutions on tensor cores get their tensors channels first, and each one converts them on the way.

## What it sees
Kernels that convert between NCHW and NHWC, launched by convolutions, take a visible share of the time beside
convolutions on tensor cores.

## By hand
    model = model.to(memory_format=torch.channels_last)
    images = images.to(device, memory_format=torch.channels_last)

## When not
Models that reshape their activations by hand may convert more often than before. Convolutions in float32 on
plain cores are no faster in this layout."""

from __future__ import annotations

import re

from perfdoctor.analysis.device import KernelFacts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck
from perfdoctor.trace.results import KernelClass, KernelUse

NOTICEABLE = 0.03  # share of the time in conversions alone
CONVERSION = re.compile(
    r"nchwtonhwc|nhwctonchw|(nchw|nhwc)_?(to|2)_?(nchw|nhwc)|batched_transpose", re.IGNORECASE
)
# Speedup of trainings with mixed precision: 1.08 to 1.35 (PyTorch's tutorial on channels last memory format).
FASTER = 1.35
KEPT = 0.5  # of the conversions may stay at the edges of what is not channels last


@tip(
    title="Keep convolutions channels last",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("gpu", "convolutional"),
    checked=Checked.TRACES,
)
def channels_first_convolutions(kernels: KernelFacts) -> Advice | None:
    """channels_last, where converting layouts for convolutions takes a visible share."""
    conversions = [use for use in kernels.kernels if use.kind is KernelClass.LAYOUT and _converts(use)]
    share = min(1.0, kernels.scale * sum(use.us for use in conversions))
    on_tensor_cores = any(use.kind is KernelClass.CONVOLUTION and use.tensor_core for use in kernels.kernels)
    if share < NOTICEABLE or not on_tensor_cores:
        return None
    convolving = min(1.0, kernels.share(KernelClass.CONVOLUTION))
    count = sum(use.count for use in conversions)
    return Advice(
        because=(
            f"{share:.1%} of the time goes into {count:,} conversions between channels first and last",
            f"convolutions themselves take {convolving:.1%}, on tensor cores that compute channels last",
        ),
        change=removes(KEPT * share, share, min(1.0, share + (1 - 1 / FASTER) * convolving)),
        tweak="--channels-last",
        same_result=False,
        code="model = model.to(memory_format=torch.channels_last)\n"
        "images = images.to(device, memory_format=torch.channels_last)",
    )


def _converts(use: KernelUse) -> bool:
    """Whether a kernel changes the layout for a convolution, by its name or by what launched it."""
    return CONVERSION.search(use.name) is not None or "conv" in (use.op or "").lower()
