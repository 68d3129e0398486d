"""Many small copies between host and device each cost more than their bytes.

## What it sees
Every step makes many copies of a few kilobytes, and together they take a visible share of the time.

## By hand
    packed = torch.cat([tensor.reshape(-1) for tensor in small]).to(device, non_blocking=True)

## When not
Copies that run beside computing cost nothing but their launches.
"""

from __future__ import annotations

from perfdoctor.analysis.device import CopyFacts, at_line, per_step_ms, places
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck
from perfdoctor.trace.results import CopySite, CopyUse

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
SMALL_BYTES = 65_536  # at 10 GB/s and more, the few microseconds a copy takes to begin outweigh its bytes
MANY = 8  # per step: inputs, targets and a loss are no pattern to mend
SHOWN = 3  # places named
PACKED = (0.5, 0.8, 0.95)  # of the time that goes if some, most, or nearly all of them become one


@tip(
    title="Pack small copies into one", bottleneck=Bottleneck.TRANSFER, effort=Effort.LINES, applies=("gpu",)
)
def many_small_copies(copies: CopyFacts) -> Advice | None:
    """One packed copy, where many small ones take a visible share."""
    small = [copy for copy in copies.copies if copy.bytes is not None and _mean_bytes(copy) < SMALL_BYTES]
    count, us = sum(copy.count for copy in small), sum(copy.us for copy in small)
    each_step, share = copies.per_step(count), us * copies.scale
    if each_step is None or each_step < MANY or share < NOTICEABLE:
        return None
    found = places((site for site in copies.sites if _mean_bytes(site) < SMALL_BYTES), SHOWN)
    mean_bytes = sum(copy.bytes or 0 for copy in small) / count
    low, likely, high = (share * packed for packed in PACKED)
    return Advice(
        because=(
            f"{each_step:,.0f} small copies a step take {share:.1%} of the time, hidden by nothing",
            f"their mean is {mean_bytes / 1e3:.1f} kB and {us / count:.1f} µs",
            *(f"{op}{at_line(at)}: {per_step_ms(us, copies.files_steps)}" for op, at, us in found if at),
        ),
        change=removes(low, likely, high),
        at=tuple(at for _, at, _ in found if at is not None),
        code="torch.cat([tensor.reshape(-1) for tensor in small]).to(device, non_blocking=True)",
    )


def _mean_bytes(copy: CopyUse | CopySite) -> float:
    return (copy.bytes or 0) / copy.count if copy.count else 0.0
