from __future__ import annotations

import pytest

from perfdoctor.facts.predict.batch_queue import EVEN, queue

ONE_DEAR = (0.5,) * 15 + (8.5,)  # one batch in sixteen costs seventeen times as much as the others


def test_uneven_batches_cost_more_than_their_mean_where_the_queue_is_short():
    assert queue(0.010, 0.019, EVEN, 2, 1) < queue(0.010, 0.019, ONE_DEAR, 2, 1)


def test_a_longer_queue_hides_uneven_batches():
    assert queue(0.010, 0.015, ONE_DEAR, 2, 16) < queue(0.010, 0.015, ONE_DEAR, 2, 1)


def test_even_batches_queue_as_the_slower_of_both():
    assert queue(0.010, 0.050, EVEN, 2, 2) == pytest.approx(0.025, rel=0.05)
    assert queue(0.030, 0.010, EVEN, 2, 2) == pytest.approx(0.030, rel=0.05)


def test_more_workers_than_there_are_batches_change_nothing():
    many = queue(0.1, 1.0, (0.5, 1.5), 300, 2)
    assert many == queue(0.1, 1.0, (0.5, 1.5), 2**62, 2**62)
    assert many == pytest.approx(0.1)
