"""Many small copies between host and device cost more than their bytes.

## What it sees
Every step makes many copies of a few kilobytes, which together take a noticeable share of the time, or keep
the host busy while the device waits.

## By hand
    packed = torch.cat([tensor.reshape(-1) for tensor in small]).to(device, non_blocking=True)

## When not
Copies that computation overlaps cost nothing but their launches.
"""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.device.device import CopyFacts, at_line, per_step_ms, places
from perfdoctor.facts.device.small_copies import many_small
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import CopySite

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
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
    small = many_small(copies)
    count, us = sum(copy.count for copy in small), sum(copy.us for copy in small)
    sites = [
        replace(copy, idle_us=copies.unprofiled * copy.idle_us if copy.direction == "HtoD" else 0.0)
        for copy in small
        if isinstance(copy, CopySite)
    ]  # what the host waits for on the way back is no cost of copying
    copying = min(1.0, us * copies.scale)
    idle = min(1.0 - copying, copies.per_us * sum(site.idle_us for site in sites))
    share = copying + idle
    if share < NOTICEABLE:
        return None
    mean_bytes = sum(copy.bytes or 0 for copy in small) / count
    named = [place for place in places(sites, SHOWN) if place[1] is not None]
    each_step = f"{copies.per_step(count):,.0f} small copies per step"
    low, likely, high = (share * packed for packed in PACKED)
    return Advice(
        because=(
            f"{each_step} take {copying:.1%} of the time, with nothing else running",
            *([f"the device idles another {idle:.1%} of the time while the host makes them"] if idle else []),
            f"on average each has {mean_bytes / 1e3:.1f} kB and takes {us / count:.1f} µs",
            *(f"{op}{at_line(at)}: {per_step_ms(us, copies.judged_steps)}" for op, at, us in named),
        ),
        change=removes(low, likely, high),
        at=tuple(at for _, at, _ in named if at is not None),
        code="torch.cat([tensor.reshape(-1) for tensor in small]).to(device, non_blocking=True)",
        bottleneck=Bottleneck.HOST if share > 2 * (copying + copies.timed) else None,
    )
