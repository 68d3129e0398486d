"""Turns running totals, written about once a second, into figures per step."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.runs.events import AnyEvent

MOST = 0.5  # of the steps covered by a total makes it one of the steps; else the last one has to do
# Behind the last total: as long as it grows, one is written each second, in long runs each hundredth.
LATE_S, LATE = 2.0, 0.05


def latest(entries: Sequence[AnyEvent], span: MeasuredSpan) -> tuple[AnyEvent, float] | None:
    """The last total written between the steps, and how many steps it covers; None without any.

    The very last one is written as the process ends: it also holds what came after the steps. Where none was
    written for long, it did not grow, and what was there at first is all that there was.
    """
    if not entries:
        return None
    inside = [entry for entry in entries if span.holds(entry.t_ns)]
    span_ns = span.end_ns - span.begin_ns
    if inside and span_ns > 0:
        last, is_last = inside[-1], inside[-1] is entries[-1]
        covered = (last.t_ns - span.begin_ns) / span_ns
        if is_last and span.end_ns - last.t_ns > max(LATE_S * 1e9, LATE * span_ns):
            return last, span.steps
        if covered >= MOST or (covered > 0 and is_last):
            return last, span.steps * covered
    return entries[-1], span.steps
