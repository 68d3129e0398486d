"""Running totals, written about once a second, become figures per step."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.analysis.records import Json, Window, number

MOST = 0.5  # of the steps covered by a total makes it one of the steps; else the last one has to do


def latest(entries: Sequence[Json], window: Window) -> tuple[Json, float] | None:
    """The last total written between the steps, and how many steps it covers; None without any.

    The very last one is written as the process ends: it also holds what came after the steps.
    """
    if not entries:
        return None
    inside = [entry for entry in entries if window.holds(entry.get("t_ns"))]
    span_ns = window.end_ns - window.begin_ns
    if inside and span_ns > 0:
        covered = (number(inside[-1].get("t_ns")) - window.begin_ns) / span_ns
        if covered >= MOST:
            return inside[-1], window.steps * covered
    return entries[-1], window.steps
