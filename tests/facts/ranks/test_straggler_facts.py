from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.ranks.straggler_facts import of_traces
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.trace.measure.collectives import MatchedCollectives, RankWait
from tests.support.rank_traces import host_only, rank, step

WAITS = rank(tuple(step(n, compute=40, comm=50) for n in range(5)), rank=0)
ALSO = replace(WAITS, rank=2)
LATE = rank(tuple(step(n, compute=60, comm=5, idle={"data_wait": 35}) for n in range(5)), rank=1)
FOUND = MatchedCollectives(
    matched=10,
    unmatched=0,
    ranks=(
        RankWait(0, 250_000, 200_000, 5_000.0, 1),
        RankWait(1, 25_000, 5_000, 395_000.0, 9),
        RankWait(2, 250_000, 200_000, 0.0, 0),
    ),
    late=1,
)
# A little more than half of the waiting of two ranks is for one: as chance has it.
CHANCE = replace(
    FOUND, ranks=(replace(FOUND.ranks[0], caused_us=195_000.0), replace(FOUND.ranks[1], caused_us=205_000.0))
)
# As much waiting is for rank 0 as for rank 1.
TURNS = replace(FOUND, ranks=(replace(FOUND.ranks[0], caused_us=395_000.0), *FOUND.ranks[1:]))


def test_the_late_rank_is_described_by_how_often_it_is_last_and_how_long_the_others_wait():
    facts = of_traces((WAITS, LATE, ALSO), FOUND)
    assert (facts.rank, facts.ranks, facts.matched, facts.times_last) == (1, 3, 10, 9)
    assert facts.caused == pytest.approx(395 / 400)
    assert facts.wait == pytest.approx(0.4)


def test_its_cause_is_what_takes_it_longer_than_the_median_rank():
    facts = of_traces((WAITS, LATE, ALSO), FOUND)
    assert facts.cause is Bottleneck.DATA
    assert facts.excess_s == pytest.approx(0.035)


def test_waiting_that_computing_hides_does_not_count():
    hidden = rank(tuple(step(n, compute=80, comm=50, overlap=40) for n in range(5)), rank=0)
    assert of_traces((hidden, LATE, replace(hidden, rank=2)), FOUND).wait == pytest.approx(0.1)


def test_a_rank_that_nobody_waits_for_noticeably_is_not_late():
    hidden = rank(tuple(step(n, compute=90, comm=50, overlap=49.5) for n in range(5)), rank=0)
    assert of_traces((hidden, LATE, replace(hidden, rank=2)), FOUND) is None


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        pytest.param((WAITS,), None, id="one-rank"),
        pytest.param((WAITS, LATE, ALSO), replace(FOUND, late=None), id="nobody-late"),
        pytest.param((WAITS, LATE, ALSO), TURNS, id="others-are-waited-for-as-much"),
        pytest.param((WAITS, LATE), CHANCE, id="two-that-wait-in-turn"),
        pytest.param((WAITS, replace(host_only(), rank=1), ALSO), FOUND, id="no-device-on-the-late-rank"),
    ],
)
def test_without_a_late_rank_there_are_no_facts(ranks, found):
    assert of_traces(ranks, found) is None
