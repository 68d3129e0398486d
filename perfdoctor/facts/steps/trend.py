"""Tells whether figures grow, and how fast, without being led astray by a few that lie far off."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfdoctor.facts.steps.boundaries import Floats

MOST_POINTS = 400  # every pair of them is looked at


def slope(places: npt.ArrayLike, values: npt.ArrayLike) -> float | None:
    """The median slope of all pairs of points, 0 where nothing changes; None below two places.

    Theil-Sen estimator: P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", Journal
    of the American Statistical Association 63 (1968). Of more than MOST_POINTS points, evenly spread ones do.
    """
    x, y = _evenly(np.asarray(places, dtype=np.float64)), _evenly(np.asarray(values, dtype=np.float64))
    first, second = np.triu_indices(len(x), 1)
    apart = x[second] - x[first]
    pairs = (y[second] - y[first])[apart != 0] / apart[apart != 0]
    return float(np.median(pairs)) if len(pairs) else None


def rank_correlation(values: npt.ArrayLike) -> float:
    """Spearman's rank correlation of values with their places: 1 where each is above all before it."""
    ranks = np.argsort(np.argsort(values, kind="stable"))
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]) if len(ranks) > 1 else 0.0


def _evenly(values: Floats) -> Floats:
    if len(values) <= MOST_POINTS:
        return values
    return np.asarray(values[np.linspace(0, len(values) - 1, MOST_POINTS).round().astype(int)])
