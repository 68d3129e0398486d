"""Matrix products and convolutions run in 32 bits on a device that is several times faster in 16.

## What it sees
Kernels of matrix products, convolutions and attention in float32 or TF32 take a noticeable share of the time,
on a device whose published 16-bit rate is at least twice as high.

## By hand
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(batch), target)

## When not
Memory-bound kernels gain only from moving fewer bytes. One-dimensional convolutions and products too small to
fill the device gain next to nothing, and some trainings of that kind became slower. Products that take more
than five times what the device's peak rates allow may be held up by something else: they count less, and from
ten times on not at all. Losses, softmax and sums stay in 32 bits, which autocast takes care of. In float16,
gradients need a GradScaler. Compare the loss.
"""

from __future__ import annotations

import math
from dataclasses import astuple, replace

from perfdoctor.facts.device.device import KernelFacts
from perfdoctor.facts.device.model_kind import computing, model_kind
from perfdoctor.facts.device.rooflines import HALF, HEAVY, Shares, gone, hope, hoped, moves_bytes, part_of
from perfdoctor.facts.predict.published_gains import USUAL, change, mixed_precision
from perfdoctor.model.change import Change, Effort, Estimate, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.trace.results import DevicePeak, KernelClass

NOTICEABLE = 0.10  # share of the time; below it casts eat the gain
WIDE = ("float32", "tf32")
NARROW = ("bfloat16", "float16")  # in order of preference: bfloat16 needs no loss scaling
WORTH_IT = 2.0  # times the 32-bit rate
BETWEEN = (KernelClass.POINTWISE, KernelClass.NORMALISATION)  # computed in 16 bits between products
# Times the float32 rate, from which on products in 16 bits run on tensor cores and float32 does not, as on
# the devices with published figures. What follows is for the others.
TENSOR_CORES = 4.0
BYTES_HALVED = 2.0  # what even a kernel bound by memory gains
AFTER_CASTS = 1.3  # the least that is left of it where each product brings casts of its own
FEWER_BYTES = (1 - 1 / AFTER_CASTS, 0.4, 1 - 1 / BYTES_HALVED)  # gone of what memory bounds
WELL_TUNED = 0.7  # of the published rate: large products reach about so much, others less


@tip(
    title="Use mixed precision (autocast)",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("gpu",),
    saves=("time", "memory"),
    checked=Checked.PUBLISHED,
    kernels_only=True,
)
def no_mixed_precision(kernels: KernelFacts, peak: DevicePeak) -> Advice | None:
    """Advises autocast where 32-bit products take the time and the device is much faster in 16 bits."""
    narrow = next((name for name in NARROW if peak.flops_per_s.get(name)), None)
    if narrow is None:
        return None
    fastest = max(peak.flops_per_s[name] for name in NARROW if name in peak.flops_per_s)
    share, high, tf32 = 0.0, 0.0, 0.0
    for kernel in kernels.kernels:
        rate = peak.flops_per_s.get(kernel.dtype or "")
        if kernel.kind in HEAVY and kernel.dtype in WIDE and rate and fastest >= WORTH_IT * rate:
            part = kernels.scale * kernel.us
            share += part
            tf32 += part if kernel.dtype == "tf32" else 0.0
            high += part * (1 - 1 / max(BYTES_HALVED, WELL_TUNED * fastest / rate))
    work = [use for use in kernels.work if use.kind in HEAVY and use.dtype in WIDE]
    able = [use for use in work if hope(use, peak) > 0]
    gaining = hoped(work, peak) if work else 1.0
    if share * gaining < NOTICEABLE:
        return None
    is_tf32 = tf32 >= share / 2
    if is_tf32 or fastest >= TENSOR_CORES * peak.flops_per_s.get("float32", math.inf):
        moving = part_of([use for use in able if moves_bytes(use, peak)], able)
        removed = _as_published(kernels, share * gaining, moving, is_tf32)
        removed = _by_rates(removed, kernels, share, gone(work, peak, narrow, HALF))
        # at best, what is far from both limits goes as its bytes do
        most = min(1.0, removed.step.high + HALF * share * (1.0 - gaining))
        removed = replace(removed, step=replace(removed.step, high=most))
    else:
        low, likely, most = 1 - 1 / AFTER_CASTS, 1 - 1 / BYTES_HALVED, high / share
        removed = removes(*(share * gaining * of_it for of_it in (low, likely, most)))
    scaler = "  # with torch.amp.GradScaler()" if narrow == "float16" else ""
    return Advice(
        because=(
            f"{min(1.0, share):.1%} of the time goes into matrix products and convolutions in 32 bits",
            f"{peak.device} reaches {fastest / 1e12:,.0f} TFLOP/s in 16 bits ({peak.source})",
        ),
        change=removed,
        tweak="--amp",
        same_result=False,
        code=f'with torch.autocast("cuda", dtype=torch.{narrow}):{scaler}\n    ...  # forward and loss',
        arguments="bf16=True" if narrow == "bfloat16" else "fp16=True",
    )


def _as_published(kernels: KernelFacts, share: float, moving: float, is_tf32: bool) -> Change:
    """What goes by published gains; of `moving`, the part that memory bounds, no more than its bytes."""
    busy = computing(kernels)
    published = change(mixed_precision(model_kind(kernels), is_tf32), busy, share)
    most = min(busy, share / USUAL)
    parts = zip(astuple(published.step), FEWER_BYTES, strict=True)
    gone_of = (of_all * (1 - moving) + moving * min(of_all, most * fewer) for of_all, fewer in parts)
    return replace(published, step=Estimate(*gone_of))


def _by_rates(published: Change, kernels: KernelFacts, share: float, known: Shares | None) -> Change:
    """The same range; likely, where the work is known, is what rates and bytes tell."""
    if known is None:
        return published
    between = sum(use.us for use in kernels.kernels if use.kind in BETWEEN and use.dtype == "float32")
    likely = share * known[1] + HALF * kernels.scale * between
    low, high = published.step.low, published.step.high  # casts, which are not counted, keep it below
    return replace(published, step=Estimate(low, min(max(likely, low), high), high))
