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
from perfdoctor.facts.device.rooflines import is_far, least_us
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import DevicePeak, KernelUse

NOTICEABLE = 0.10  # share of the time
LONG_US = 50.0  # each: ten times a launch, so that its fixed costs do not count
REACHED = 0.5  # of the roofline, by well-tuned kernels of odd shapes
# Of the distance to that, as a factor: where another shape helps little, half the way, or nearly all of it.
# A kernel that is 50 times too slow is rarely left half as slow: what replaces it is another kernel.
CLOSED = (0.1, 0.5, 0.9)


@tip(
    title="Replace the slow kernel with a faster form",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("gpu",),
    kernels_only=True,
    rivals=("misaligned-shapes",),
)
def slow_kernel(kernels: KernelFacts, peak: DevicePeak) -> Advice | None:
    """Names the slowest operator against the device's roofline, where it takes much of the time."""
    slow = [use for use in kernels.work if is_far(use, peak) and use.us > LONG_US * use.count]
    worst = max(slow, key=lambda use: use.us, default=None)
    share = min(1.0, kernels.scale * worst.us) if worst else 0.0
    if worst is None or share < NOTICEABLE:
        return None
    least = least_us(worst, peak) or 0.0
    times = max(1.0, worst.us * REACHED / least) if least else 1.0
    low, likely, high = (share * (1 - times**-closed) for closed in CLOSED)
    launched = sorted((use for use in kernels.kernels if use.op == worst.op), key=lambda use: -use.us)
    shapes = " x ".join(str(list(shape)) for shape in worst.shapes[:3])
    return Advice(
        because=(
            f"{share:.1%} of the time goes into {worst.count:,} calls of {worst.op} on {shapes}",
            f"each takes {worst.us / worst.count:,.0f} µs, {worst.us / least:.0f} times the minimum",
            f"the minimum follows from the peak rates of {peak.device} ({peak.source})",
            *(_by(use) for use in launched[:1]),
        ),
        change=removes(low, likely, high),
        at=tuple(use.at for use in launched if use.at is not None)[:1],
        same_result=False,
    )


def _by(kernel: KernelUse) -> str:
    return f"the kernel is {kernel.name.split('<')[0].split('(')[0][:80]}"
