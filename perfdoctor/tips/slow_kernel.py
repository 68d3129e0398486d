"""One kind of kernel takes much of the time and stays far below what the device can do.

## What it sees
Calls of one operator with the same shapes take a large share of the time, each longer than a launch, at
less than a fifth of the rate that the device's peak operations and memory allow for that work.

## By hand
Another shape (pad odd sizes, merge small batches), another number type, another layout (`.contiguous()`
before the operator), or a library's own kernel for the same formula.

## When not
Shapes tell the least work that must be done: an operator that has to do more than that looks slower than it
is."""

from __future__ import annotations

from perfdoctor.analysis.device import KernelFacts
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck
from perfdoctor.trace.results import KernelUse, Peak, WorkUse

NOTICEABLE = 0.10  # share of the time
FAR = 5.0  # times as long as the roofline: tuned kernels reach half of it or more, small ones a third
LONG_US = 50.0  # each: ten times a launch, so that its fixed costs do not count
REACHED = 0.5  # of the roofline, by well-tuned kernels of odd shapes
CLOSED = (0.2, 0.5, 0.9)  # of what is above that, where another shape helps little, some, or all the way


@tip(
    title="Find a faster form for the slow kernel",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("gpu",),
)
def slow_kernel(kernels: KernelFacts, peak: Peak) -> Advice | None:
    """The slowest operator against the device's roofline, where it dominates."""
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
            f"each takes {worst.us / worst.count:,.0f} µs, {worst.us / least:.0f} times the least it needs",
            f"the least by the peak rates of {peak.device} ({peak.source})",
            *_by(kernel),
        ),
        change=removes(low, likely, high),
        at=(kernel.at,) if kernel and kernel.at else (),
        same_result=False,
    )


def least_us(use: WorkUse, peak: Peak) -> float | None:
    """What the work of these calls takes at the device's limits, or None where a limit is not known."""
    flops_per_s = peak.flops_per_s.get(use.dtype or "")
    if not flops_per_s or use.bytes is None:
        return None
    return 1e6 * use.count * max(use.flops / flops_per_s, use.bytes / peak.bytes_per_s)


def _far(use: WorkUse, peak: Peak) -> bool:
    least = least_us(use, peak)
    return bool(least) and use.us > FAR * (least or 0.0) and use.us > LONG_US * use.count


def _by(kernel: KernelUse | None) -> tuple[str, ...]:
    return (f"by {kernel.name.split('<')[0].split('(')[0][:80]}",) if kernel else ()
