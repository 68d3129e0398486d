"""Convolutions on tensor cores get channels-first tensors, and convert the layout each time.

## What it sees
Kernels that convert between NCHW and NHWC, launched by convolutions on tensor cores, take a noticeable share
of the time.

## By hand
    model = model.to(memory_format=torch.channels_last)
    images = images.to(device, memory_format=torch.channels_last)

## When not
Grouped convolutions, as in RegNet, NFNet or wide ResNeXts: the more channels a group has, the worse it gets;
from a dozen on models were likely slower than before, at worst several times. There this tip is silent.
Depth-wise ones, of one channel a group, mostly gain. Models that reshape their activations by hand, that
normalise by groups, or whose operators are written for NCHW can be slower, too. Float32 convolutions that do
not use tensor cores are no faster in this layout. `perfdoctor try --channels-last` measures it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from perfdoctor.facts.device.device import KernelFacts
from perfdoctor.facts.device.model_kind import computing, grouped_share, model_kind
from perfdoctor.facts.predict.published_gains import MainWork, ModelKind, change, channels_last
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck, Gain
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.trace.results import KernelClass, KernelUse

NOTICEABLE = 0.03  # share of the time in conversions alone
CONVERSION = re.compile(
    r"nchwtonhwc|nhwctonchw|(nchw|nhwc)_?(to|2)_?(nchw|nhwc)|batched_transpose", re.IGNORECASE
)


@tip(
    title="Use the channels-last memory format for convolutions",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("gpu", "convolutional"),
    checked=Checked.PUBLISHED,
    kernels_only=True,
)
def channels_first_convolutions(kernels: KernelFacts) -> Advice | None:
    """Advises channels_last where converting layouts takes time, and models of this kind became faster."""
    conversions = [use for use in kernels.kernels if use.kind is KernelClass.LAYOUT and _converts(use)]
    share = min(1.0, kernels.scale * sum(use.us for use in conversions))
    on_tensor_cores = any(use.kind is KernelClass.CONVOLUTION and use.tensor_core for use in kernels.kernels)
    if share < NOTICEABLE or not on_tensor_cores:
        return None
    convolving = min(1.0, kernels.share(KernelClass.CONVOLUTION))
    kind = model_kind(kernels)
    gain = channels_last(kind)
    if gain.likely <= 1.0:
        return None
    count = sum(use.count for use in conversions)
    return Advice(
        because=(
            f"{share:.1%} of the time goes into {count:,} conversions between NCHW and NHWC layout",
            f"convolutions themselves take {convolving:.1%}, on tensor cores, which need channels last",
            *_warning(kind, gain, grouped_share(kernels)),
        ),
        change=_at_least(change(gain, computing(kernels), convolving + share), share, kind),
        tweak="--channels-last",
        same_result=False,
        code="model = model.to(memory_format=torch.channels_last)\n"
        "images = images.to(device, memory_format=torch.channels_last)",
    )


def _converts(use: KernelUse) -> bool:
    """Whether a kernel changes the layout for a convolution, by its name or by what launched it."""
    return CONVERSION.search(use.name) is not None or "conv" in (use.op or "").lower()


def _at_least(published: Change, conversions: float, kind: ModelKind) -> Change:
    """With the measured conversions gone, which takes groups known not to be there."""
    if kind.work not in (MainWork.CONVOLUTIONS, MainWork.DEPTHWISE):
        return published
    step = published.step
    more = Estimate(step.low, max(step.likely, conversions), max(step.high, conversions))
    return replace(published, step=more)


def _warning(kind: ModelKind, gain: Gain, grouped: float) -> tuple[str, ...]:
    """That such models became slower, too, where convolutions are grouped, or may be."""
    if kind.work is MainWork.GROUPED:
        groups = f"{grouped:.0%} of their time is in grouped ones of {kind.group_width:.0f} channels a group"
        return (f"{groups}: some such models became slower, down to {gain.low:.2f}x",)
    if kind.work in (None, MainWork.UNSHAPED):
        return (f"whether they are grouped is not known: if so, it may be slower, down to {gain.low:.2f}x",)
    return ()
