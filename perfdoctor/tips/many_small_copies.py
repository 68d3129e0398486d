"""Many small copies between host and device cost more than their bytes.

## What it sees
Every step makes many copies of a few kilobytes, which together take a noticeable share of the time.

## By hand
    packed = torch.cat([tensor.reshape(-1) for tensor in small]).to(device, non_blocking=True)

## When not
Copies that computation overlaps cost nothing but their launches.
"""

from __future__ import annotations

from perfdoctor.facts.device.device import CopyFacts, at_line, per_step_ms, places
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import CopySite, CopyUse

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
SMALL_BYTES = 65_536  # at 10 GB/s and more, the few microseconds a copy takes to begin outweigh its bytes
MANY = 8  # per step: a few, for inputs, targets and a loss, are normal
SHOWN = 3  # places named
PACKED = (0.5, 0.8, 0.95)  # of the time that goes if some, most, or nearly all of them become one


@tip(
    title="Combine many small copies into one",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def many_small_copies(copies: CopyFacts) -> Advice | None:
    """Advises one combined copy where many small ones take a noticeable share."""
    small = [copy for copy in copies.copies if copy.bytes is not None and _mean_bytes(copy) < SMALL_BYTES]
    count, us = sum(copy.count for copy in small), sum(copy.us for copy in small)
    each_step, share = copies.per_step(count), us * copies.scale
    if each_step is None or each_step < MANY or share < NOTICEABLE:
        return None
    sites = places((site for site in copies.sites if _mean_bytes(site) < SMALL_BYTES), SHOWN)
    mean_bytes = sum(copy.bytes or 0 for copy in small) / count
    low, likely, high = (share * packed for packed in PACKED)
    return Advice(
        because=(
            f"{each_step:,.0f} small copies per step take {share:.1%} of the time, with nothing else running",
            f"on average each has {mean_bytes / 1e3:.1f} kB and takes {us / count:.1f} µs",
            *(f"{op}{at_line(at)}: {per_step_ms(us, copies.judged_steps)}" for op, at, us in sites if at),
        ),
        change=removes(low, likely, high),
        at=tuple(at for _, at, _ in sites if at is not None),
        code="torch.cat([tensor.reshape(-1) for tensor in small]).to(device, non_blocking=True)",
    )


def _mean_bytes(copy: CopyUse | CopySite) -> float:
    return (copy.bytes or 0) / copy.count if copy.count else 0.0
