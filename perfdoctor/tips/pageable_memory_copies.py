"""Copies to the device come from pageable memory, and the device waits for them.

## What it sees
The trace holds host-to-device copies from pageable memory that computation does not overlap, or that block
the host while the device idles.

## By hand
    DataLoader(..., pin_memory=True)
    batch = batch.to(device, non_blocking=True)

## When not
Pinned memory is never swapped, and is taken from the whole machine: with little free memory, everything slows
down. A tensor that is created on the host only to be copied is better created on the device, and one that
never changes is better kept there (`constants-copied-every-step`).
"""

from __future__ import annotations

from collections.abc import Collection

from perfdoctor.facts.device.device import (
    US_PER_S,
    CopyFacts,
    DeviceFacts,
    at_line,
    per_step_ms,
    places,
)
from perfdoctor.facts.device.small_copies import many_small
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.trace.results import CopySite, CopyUse, IdleCause

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
# Pinned over pageable bandwidth: 1.4 and 2.5 on the machines of NVIDIA's "How to Optimize Data Transfers in
# CUDA C/C++", hardly more than 1 where the bus is what is slow.
FASTER = (1.1, 2.0)
PINNED_GB_PER_S = 20.0  # of sixteen lanes of PCIe 4.0, which training devices have since 2020, or more
SHOWN = 3  # lines named


@tip(
    title="Copy batches from pinned memory",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.FLAG,
    applies=("gpu",),
    checked=Checked.TRACES,
)
def pageable_memory_copies(device: DeviceFacts, copies: CopyFacts) -> Advice | None:
    """Advises pinned memory where copies from pageable memory keep the device waiting."""
    small = [copy for copy in many_small(copies) if _is_meant(copy)]  # for many-small-copies
    pageable = [copy for copy in copies.copies if _is_meant(copy)]
    constant = [line for line in copies.constants if line.host_memory == "pageable"]  # have their own tip
    steps = copies.judged_steps or 0
    all_us = sum(copy.us for copy in pageable) - sum(copy.us for copy in small)
    us = all_us - US_PER_S * steps * sum(line.seconds for line in constant)
    part = us / sum(copy.us for copy in copies.copies)
    copying, blocked = us * copies.scale, part * device.idle.get(IdleCause.COPY, 0.0)
    share = copying + blocked
    if share < NOTICEABLE:
        return None
    count = sum(copy.count for copy in pageable) - sum(copy.count for copy in small)
    count = max(1, count - round(steps * sum(line.count for line in constant)))
    sizes = [copy.bytes for copy in pageable if copy.bytes is not None]
    gb_per_s = (sum(sizes) - sum(copy.bytes or 0 for copy in small)) / all_us / 1e3
    rate = f", {gb_per_s:.1f} GB/s" if sizes else ""
    because = [
        f"{copying:.1%} of the time goes into copies from pageable memory that computation does not overlap",
        f"{count:,} such copies{rate}",
    ]
    if blocked >= NOTICEABLE:
        because.append(f"the device idles another {blocked:.1%} of the time while they block the host")
    known = {(line.at.file, line.at.line) for line in constant}
    meant = (site for site in copies.sites if _is_meant(site) and site not in small)
    sites = places((site for site in meant if not _is_at(site.at, known)), SHOWN)
    because += [f"{op}{at_line(at)}: {per_step_ms(us, copies.judged_steps)}" for op, at, us in sites if at]
    least, usual = FASTER
    fast = max(usual, PINNED_GB_PER_S / gb_per_s) if gb_per_s > 0 else usual
    low, likely = (share * (1 - 1 / faster) for faster in (least, fast))
    return Advice(
        because=tuple(because),
        change=removes(low, likely, share),
        at=tuple(at for _, at, _ in sites if at is not None)
        or tuple(at for at in copies.at if not _is_at(at, known)),
        tweak="--pin-memory --non-blocking",
        code="DataLoader(..., pin_memory=True)\nbatch = batch.to(device, non_blocking=True)",
        arguments='dataloader_pin_memory=True, accelerator_config={"non_blocking": True}',
    )


def _is_meant(copy: CopyUse | CopySite) -> bool:
    return (copy.direction, copy.host_memory) == ("HtoD", "pageable")


def _is_at(at: Location | None, lines: Collection[tuple[str, int]]) -> bool:
    return at is not None and (at.file, at.line) in lines
