"""Tells how far a batch's kernels fill the device: BatchFill.

A kernel is a grid of thread blocks, which the device's multiprocessors share out. One with fewer blocks than
there are multiprocessors leaves some of them without any: with twice as many samples it would take as long.
So would a product of few samples with many weights, which takes as long as reading those.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.device.device import NOT_COMPUTE, DeviceFacts, KernelFacts, MatrixFacts
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.missing import Missing
from perfdoctor.trace.measure.dtypes import BYTES
from perfdoctor.trace.results import (
    DevicePeak,
    KernelClass,
    KernelUse,
    MatrixUse,
    WorkUse,
)

START_US = 1.6  # of any kernel is its start and end: the shortest in recorded traces of an H100 take that
# Of the computing time: from here on a batch is called small. Recorded trainings with batches of a usual size
# show 0.01 to 0.12, models that are given one text, one picture or few samples 0.34 to 0.61.
UNFILLED = 0.25
UPDATING = (KernelClass.OPTIMIZER, KernelClass.CLIPPING)
SURE = 1.2  # times the likely share, at most
PROFILED = 0.7  # of that, at worst: a profiler slows the host more than the device


@dataclass(frozen=True)
class BatchFill:
    """Shares of the step of a device. No larger batch makes longer what is fixed."""

    unfilled: float  # of the time in which it computes samples: multiprocessors without a block, starts
    fixed: tuple[float, float, float]  # low, likely, high
    because: str
    launching: float = 0.0  # of `fixed`: the device idles while the host launches

    @property
    def is_small(self) -> bool:
        """Whether the device could compute noticeably more samples in the same kernels."""
        return self.unfilled >= UNFILLED


@fact
def batch_fill(
    device: DeviceFacts,
    kernels: KernelFacts,
    matrices: MatrixFacts | Missing | None,
    peak: DevicePeak | Missing | None,
) -> BatchFill | Missing | None:
    """What of a step on a device is there whatever the batch, or None where it computes nothing."""
    computing = [use for use in kernels.kernels if use.kind not in NOT_COMPUTE]
    all_us = sum(use.us for use in computing)
    if all_us <= 0:
        return None
    if all(use.unfilled_us is None for use in computing):
        return Missing("the torch.profiler window does not tell how many thread blocks kernels have")
    updating_us = sum(use.us for use in computing if use.kind in UPDATING)
    on_samples = [use for use in computing if use.kind not in UPDATING]
    blocks_us = sum(use.unfilled_us or 0.0 for use in on_samples)
    unfilled_us = sum(map(_unfilled_us, on_samples))
    weights_us = 0.0
    if isinstance(matrices, MatrixFacts) and isinstance(peak, DevicePeak):
        weights_us = _weights_us(matrices.matrices, peak)
    in_products = [use for use in on_samples if use.kind is KernelClass.MATMUL]
    unfilled_us += max(0.0, weights_us - sum(map(_unfilled_us, in_products)))
    launching = device.launching  # is no sample's
    # updates of parameters are as many whatever the batch
    low = device.compute * (updating_us + blocks_us) / all_us + PROFILED * launching
    likely = device.compute * (updating_us + unfilled_us) / all_us + launching
    parts = [
        f"{blocks_us / all_us:.0%} of the kernels' time is of multiprocessors that got no thread block",
        f"kernels take {all_us / sum(use.count for use in computing):.1f} µs in the mean",
        f"the device idles {launching:.0%} of the step while the host launches",
    ]
    if weights_us:
        parts.append(f"{weights_us / all_us:.0%} of their time goes into reading weights for few samples")
    if isinstance(peak, DevicePeak) and (reached := _reached(kernels.work, peak)) is not None:
        parts.append(f"products and convolutions reach {reached:.1%} of the device's peak")
    fixed = (min(low, likely), min(1.0, likely), min(1.0, SURE * likely))
    return BatchFill(unfilled_us / all_us, fixed, ", ".join(parts), launching)


def _unfilled_us(use: KernelUse) -> float:
    """Of a kernel's time, what would do for more samples, too."""
    return max(use.unfilled_us or 0.0, min(use.us, START_US * use.count))


def _weights_us(matrices: Sequence[MatrixUse], peak: DevicePeak) -> float:
    """Of products that memory limits, the time in which weights are read or their gradients written.

    A weight is the larger factor of a product with fewer rows than it has; its gradient is as large.
    """
    read = {frozenset((use.n, use.k)) for use in matrices if use.batch == 1 and use.m < min(use.n, use.k)}
    us = 0.0
    for use in matrices:
        weight = (use.n, use.k) if use.m < min(use.n, use.k) else (use.m, use.n)
        is_gradient = use.k < min(use.m, use.n) and frozenset(weight) in read
        if use.batch > 1 or not (use.m < min(use.n, use.k) or is_gradient):
            continue
        width, most = BYTES.get(use.dtype), peak.flops_per_s.get(use.dtype)
        elements = use.m * use.k + use.k * use.n + use.m * use.n
        if width and most and use.count * elements * width / peak.bytes_per_s > use.flops / most:
            us += use.us * weight[0] * weight[1] / elements
    return us


def _reached(work: Sequence[WorkUse], peak: DevicePeak) -> float | None:
    """Of the device's peak rates, what the operators whose work is known reach; None without shapes."""
    known = [(use, most) for use in work if use.us > 0 and (most := peak.flops_per_s.get(use.dtype or ""))]
    us = sum(use.us for use, _ in known)
    return sum(use.flops * use.count / most for use, most in known) * 1e6 / us if us > 0 else None
