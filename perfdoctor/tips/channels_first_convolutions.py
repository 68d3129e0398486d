"""Convolutions on tensor cores get channels-first tensors, and convert the layout each time.

## What it sees
Kernels that convert between NCHW and NHWC, launched by convolutions on tensor cores, take a noticeable share
of the time.

## By hand
    model = model.to(memory_format=torch.channels_last)
    images = images.to(device, memory_format=torch.channels_last)

## When not
Models that reshape their activations by hand may convert more often than before. Float32 convolutions that do
not use tensor cores are no faster in this layout.
"""

from __future__ import annotations

import re

from perfdoctor.facts.device.device import KernelFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.trace.results import KernelClass, KernelUse

NOTICEABLE = 0.03  # share of the time in conversions alone
CONVERSION = re.compile(
    r"nchwtonhwc|nhwctonchw|(nchw|nhwc)_?(to|2)_?(nchw|nhwc)|batched_transpose", re.IGNORECASE
)
# Speedup of trainings with mixed precision: 1.08 to 1.35 (PyTorch's tutorial on channels last memory format).
FASTER = 1.35
KEPT = 0.5  # of the conversions may stay at the edges of what is not channels last


@tip(
    title="Use the channels-last memory format for convolutions",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("gpu", "convolutional"),
    checked=Checked.TRACES,
)
def channels_first_convolutions(kernels: KernelFacts) -> Advice | None:
    """Advises channels_last where converting layouts for convolutions takes a noticeable share."""
    conversions = [use for use in kernels.kernels if use.kind is KernelClass.LAYOUT and _converts(use)]
    share = min(1.0, kernels.scale * sum(use.us for use in conversions))
    on_tensor_cores = any(use.kind is KernelClass.CONVOLUTION and use.tensor_core for use in kernels.kernels)
    if share < NOTICEABLE or not on_tensor_cores:
        return None
    convolving = min(1.0, kernels.share(KernelClass.CONVOLUTION))
    count = sum(use.count for use in conversions)
    return Advice(
        because=(
            f"{share:.1%} of the time goes into {count:,} conversions between NCHW and NHWC layout",
            f"convolutions themselves take {convolving:.1%}, on tensor cores, which need channels last",
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
