from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.steps.trend import MOST_POINTS, rank_correlation, slope


def test_a_straight_line_has_its_slope():
    assert slope([0, 1, 2, 5], [1, 3, 5, 11]) == pytest.approx(2)


def test_a_quarter_of_points_far_off_changes_little():
    values = np.arange(40.0)
    values[::4] += 1000
    assert slope(np.arange(40), values) == pytest.approx(1, abs=0.1)


def test_many_points_are_thinned_evenly():
    places = np.arange(10 * MOST_POINTS)
    assert slope(places, 3.0 * places) == pytest.approx(3)


@pytest.mark.parametrize("places", [[], [1.0], [2.0, 2.0]])
def test_below_two_places_there_is_no_slope(places):
    assert slope(places, places) is None


@pytest.mark.parametrize(
    ("values", "correlation"), [([1, 2, 5, 9], 1), ([9, 5, 2, 1], -1), ([2, 1, 4, 3], 0.6), ([7], 0)]
)
def test_rank_correlation_looks_at_order_alone(values, correlation):
    assert rank_correlation(values) == pytest.approx(correlation)
