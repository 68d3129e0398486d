"""What one call in place of a Python loop saves, and what is said of a device that waits for its host."""

from __future__ import annotations

from perfdoctor.model.change import Estimate

# What is left: one call that does the work of a loop takes a tenth to a hundredth of it, if it does not have
# to keep more in memory than fits into caches. High is the most.
LEFT = Estimate(0.01, 0.1, 0.5)


def gone(share: float, behind: Estimate, left: Estimate, waited: float | None) -> tuple[float, float, float]:
    """(low, likely, high) share of the step that goes, of loops and of their counterparts in backward.

    Where a device waits for its host, no more goes than the share of the step in which it does, `waited`.
    """
    most = 1.0 if waited is None else waited

    def part(behind_it: float, kept: float) -> float:
        return min(most, min(1.0, share + behind_it) * (1 - kept))

    return part(behind.low, left.high), part(behind.likely, left.likely), part(behind.high, left.low)


def waiting(waited: float | None) -> tuple[str, ...]:
    """The evidence that a device waits, if it is known to."""
    return () if waited is None else (f"the device waits for its host {waited:.0%} of the time",)
