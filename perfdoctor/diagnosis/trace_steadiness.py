"""How much of what a trace shows hangs on one of its steps, or on one pause where it marks none."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.model.units import seconds
from perfdoctor.trace.results import RankTrace

# Times the median step, and of all time: from here one step or pause sets the tone.
ODD, ODD_SHARE = 3.0, 0.25
US = 1e-6


def odd_step(steps: Sequence[tuple[float, str]]) -> list[str]:
    """What to say of the longest of some steps (microseconds, name) if it decides what all of them show."""
    usual_us = sorted(steps)[len(steps) // 2][0]
    longest_us, name = max(steps)
    share = longest_us / sum(span_us for span_us, _ in steps)
    if longest_us < ODD * usual_us or share < ODD_SHARE:
        return []
    return [f"{name} alone takes {share:.0%} of the time"]


def odd_pause(trace: RankTrace) -> list[str]:
    """The same of the longest pause in a trace without step marks: a start-up, perhaps."""
    span_us = trace.times.span_us if trace.times is not None else (trace.end_ns - trace.begin_ns) / 1e3
    share = trace.pause_us / span_us if span_us > 0 else 0.0
    if share < ODD_SHARE:
        return []
    pause = f"one pause of {seconds(trace.pause_us * US)} takes {share:.0%} of the time"
    return [f"{pause}: without step marks nobody can tell whether it comes again"]


def spread(spans_us: Sequence[float]) -> float:
    """Standard deviation over mean."""
    mean = sum(spans_us) / len(spans_us)
    variance = sum((span - mean) ** 2 for span in spans_us) / len(spans_us)
    return float(variance**0.5 / mean) if mean > 0 else 0.0
