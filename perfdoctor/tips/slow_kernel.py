"""One kind of kernel takes much of the time and runs far below what the device can do.

## What it sees
Calls of one operator with the same shapes take a large share of the time, each longer than a launch, at less
than a fifth of the rate that the device's peak compute and memory rates allow for that work.

## By hand
Another shape (pad odd sizes, merge small batches), another number type, another layout (`.contiguous()`
before the operator), or a library's own kernel for the same formula.

## When not
The shapes give the least work that an operator must do: one that has to do more looks slower than it is.
"""

from __future__ import annotations

from perfdoctor.facts.device.device import KernelFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import DevicePeak, KernelUse, WorkUse

NOTICEABLE = 0.10  # share of the time
FAR = 5.0  # times as long as the roofline: tuned kernels reach half of it or more, small ones a third
LONG_US = 50.0  # each: ten times a launch, so that its fixed costs do not count
REACHED = 0.5  # of the roofline, by well-tuned kernels of odd shapes
CLOSED = (0.2, 0.5, 0.9)  # of what is above that, where another shape helps little, some, or all the way


@tip(
    title="Replace the slow kernel with a faster form",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("gpu",),
    kernels_only=True,
)
def slow_kernel(kernels: KernelFacts, peak: DevicePeak) -> Advice | None:
    """Names the slowest operator against the device's roofline, where it takes much of the time."""
    slow = [use for use in kernels.work if _far(use, peak)]
    worst = max(slow, key=lambda use: use.us, default=None)
    share = min(1.0, kernels.scale * worst.us) if worst else 0.0
    if worst is None or share < NOTICEABLE:
        return None
    least = least_us(worst, peak) or 0.0
    gap = share * (1 - min(1.0, least / REACHED / worst.us))
    low, likely, high = (gap * closed for closed in CLOSED)
    kernel = max((use for use in kernels.kernels if use.op == worst.op), key=lambda use: use.us, default=None)
    shapes = " x ".join(str(list(shape)) for shape in worst.shapes[:3])
    return Advice(
        because=(
            f"{share:.1%} of the time goes into {worst.count:,} calls of {worst.op} on {shapes}",
            f"each takes {worst.us / worst.count:,.0f} µs, {worst.us / least:.0f} times the minimum",
            f"the minimum follows from the peak rates of {peak.device} ({peak.source})",
            *_by(kernel),
        ),
        change=removes(low, likely, high),
        at=(kernel.at,) if kernel and kernel.at else (),
        same_result=False,
    )


def least_us(use: WorkUse, peak: DevicePeak) -> float | None:
    """The time these calls take at the device's limits, or None if a limit is not known."""
    flops_per_s = peak.flops_per_s.get(use.dtype or "")
    if not flops_per_s or use.bytes is None:
        return None
    return 1e6 * use.count * max(use.flops / flops_per_s, use.bytes / peak.bytes_per_s)


def _far(use: WorkUse, peak: DevicePeak) -> bool:
    least = least_us(use, peak)
    return bool(least) and use.us > FAR * (least or 0.0) and use.us > LONG_US * use.count


def _by(kernel: KernelUse | None) -> tuple[str, ...]:
    return (f"the kernel is {kernel.name.split('<')[0].split('(')[0][:80]}",) if kernel else ()
