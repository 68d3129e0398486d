"""Finds copies over the bus that are small and many: each costs its launch, hardly its bytes."""

from __future__ import annotations

from perfdoctor.facts.device.device import CopyFacts
from perfdoctor.trace.results import ON_BUS, CopySite, CopyUse

SMALL_BYTES = 65_536  # at 10 GB/s and more, the few microseconds a copy takes to begin outweigh its bytes
MANY = 8  # per step: a few, for inputs, targets and a loss, are normal


def many_small(copies: CopyFacts) -> list[CopySite | CopyUse]:
    """Those of each direction of which every step makes many; by place, where places are known."""
    small = [each for each in copies.sites or copies.copies if _is_small(each)]
    counts = {way: sum(each.count for each in small if each.direction == way) for way in ON_BUS}
    return [each for each in small if (copies.per_step(counts[each.direction]) or 0.0) >= MANY]


def _is_small(copy: CopySite | CopyUse) -> bool:
    return copy.bytes is not None and copy.bytes < SMALL_BYTES * copy.count
