from __future__ import annotations

import pytest

from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.running_totals import latest
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.wire.events.training import ZeroGradEvent
from tests.support.records import MS, rows, update

WINDOW = MeasuredSpan.of(find(rows([update(10)] * 100)))  # from 1000 to 2000 ms


def at(ms, n):
    return ZeroGradEvent(t_ns=ms * MS, calls=n, seconds=0.0, at=None)


def test_the_last_total_between_the_steps_counts_for_the_steps_it_covers():
    found = latest([at(1200, n=1), at(1800, n=2), at(9000, n=3)], WINDOW)
    assert found is not None
    assert found[0].calls == 2
    assert found[1] == pytest.approx(80)


def test_in_a_short_run_the_total_of_the_end_has_to_do():
    last = at(2100, n=2)
    assert latest([at(1200, n=1), last], WINDOW) == (last, 100)


def test_a_total_that_stopped_growing_long_ago_counts_for_all_steps():
    """As that of texts which are generated once, at the beginning."""
    span = MeasuredSpan.of(find(rows([update(1000)] * 100)))  # from 1 to 101 s
    for ms, steps in ((2_000, 100), (90_000, 100), (97_000, 96)):
        assert latest([at(1200, n=1), at(ms, n=2)], span)[1] == pytest.approx(steps)


def test_a_total_that_nothing_follows_counts_for_the_steps_it_covers_however_few():
    last = at(1200, n=2)  # the process was killed, or too much had been written
    assert latest([at(1100, n=1), last], WINDOW) == (last, pytest.approx(20))


def test_without_totals_there_is_nothing():
    assert latest([], WINDOW) is None
