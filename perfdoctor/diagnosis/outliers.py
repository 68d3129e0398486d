"""Which of many values stand out from the others."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

FAR_OUT = 3.0  # times the middle half's spread beyond it: Tukey's fence for what is "far out", not chance
SLOWER = 0.02  # of the median: a value that is larger by less does not stand out, however even the others are


def quantile(values: Sequence[float], share: float) -> float:
    """The nearest-rank quantile: one of the values."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def outliers(values: Sequence[float]) -> set[int]:
    """The places of values that are much larger than the others."""
    low, middle, high = (quantile(values, share) for share in (0.25, 0.5, 0.75))
    fence = max(high + FAR_OUT * (high - low), middle * (1 + SLOWER))
    return {place for place, value in enumerate(values) if value > fence}
