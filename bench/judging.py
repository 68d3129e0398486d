"""How answers that were judged are told: how many were right, and how far off they were."""

from __future__ import annotations

import statistics
from collections.abc import Iterable


def share(what: str, answers: list[bool], promise: str | None = None) -> str:
    """`verdict right: 19 of 20, 95% (promised: >= 95 %)`."""
    if not answers:
        return f"{what}: not judged"
    reached = f"{what}: {sum(answers)} of {len(answers)}, {sum(answers) / len(answers):.0%}"
    return f"{reached} (promised: {promise})" if promise else reached


def median(values: Iterable[float | None]) -> str:
    """The median of errors whatever their sign, as a percentage."""
    known = [abs(value) for value in values if value is not None]
    return f"{statistics.median(known):.1%}" if known else "an unknown part"
