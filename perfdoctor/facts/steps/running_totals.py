"""Turns running totals, written about once a second, into figures per step."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.runs.events import AnyEvent

MOST = 0.5  # of the steps covered by a total makes it one of the steps; else the last one has to do


def latest(entries: Sequence[AnyEvent], span: MeasuredSpan) -> tuple[AnyEvent, float] | None:
    """The last total written between the steps, and how many steps it covers; None without any.

    The very last one is written as the process ends: it also holds what came after the steps.
    """
    if not entries:
        return None
    inside = [entry for entry in entries if span.holds(entry.t_ns)]
    span_ns = span.end_ns - span.begin_ns
    if inside and span_ns > 0:
        covered = (inside[-1].t_ns - span.begin_ns) / span_ns
        if covered >= MOST or (covered > 0 and inside[-1] is entries[-1]):
            return inside[-1], span.steps * covered
    return entries[-1], span.steps
