import random

import pytest

from perfdoctor.probe.ranks.sync_estimate import ALL_OF, ONE_OF, SyncEstimate

COMPUTE, LEAD, TAIL, SYNC = 20_000_000, 8_000_000, 50_000, 1_000_000


class Rank:
    """Backward passes of one rank, of which the account is read where that is asked for."""

    def __init__(self, noise=0.0, seed=0):
        self.estimate = SyncEstimate()
        self.random = random.Random(seed)
        self.noise = noise
        self.read = []
        self.true_ns = self.told_ns = 0

    def go(self, late_ns=0):
        """One pass that waits for a rank as late as that; returns the wait that is told."""
        wait = SYNC + late_ns
        took = int(COMPUTE * (1 + self.noise * self.random.gauss(0, 1))) + wait
        self.read.append(self.estimate.must_read(took))
        if self.read[-1]:
            self.estimate.learn(took, LEAD, TAIL, wait)
            told = wait
        else:
            lead, tail, told = self.estimate.estimate(took)
            assert lead + told + tail <= took
        self.true_ns += wait
        self.told_ns += told
        return told


@pytest.mark.shows("cost")
def test_of_passes_that_take_as_long_as_ever_one_in_eight_is_read():
    rank = Rank()
    for _ in range(ALL_OF + 800):
        assert rank.go() == pytest.approx(SYNC, rel=1e-6)
    assert all(rank.read[:ALL_OF])
    assert sum(rank.read[ALL_OF:]) == 800 / ONE_OF


def test_a_pass_that_waits_for_a_late_rank_is_read():
    rank = Rank()
    for number in range(400):
        late_ns = 10_000_000 if number % 5 == 3 else 0
        assert rank.go(late_ns) == pytest.approx(SYNC + late_ns, rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("every", [1, 3, 4, 8])
@pytest.mark.parametrize("late_ns", [500_000, 1_500_000, 10_000_000, 100_000_000])
def test_planted_delays_are_told_within_five_percent(late_ns, every, noise):
    rank = Rank(noise)
    for number in range(4000):
        rank.go(late_ns if number % every == 0 else 0)
    assert rank.told_ns == pytest.approx(rank.true_ns, rel=0.05)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_rank_that_begins_to_be_late_in_the_middle_is_seen(noise):
    rank = Rank(noise)
    for _ in range(300):
        rank.go()
    before = rank.told_ns
    for _ in range(300):
        rank.go(1_500_000)  # less than a tenth of the pass
    assert rank.told_ns - before == pytest.approx(300 * (SYNC + 1_500_000), rel=0.05)


def test_passes_that_become_shorter_for_good_are_known_again_by_the_next_reading():
    estimate = SyncEstimate()
    for _ in range(64):
        took = COMPUTE + SYNC
        if estimate.must_read(took):
            estimate.learn(took, LEAD, TAIL, SYNC)
    told = []
    for _ in range(64):
        took = COMPUTE // 2 + SYNC
        if estimate.must_read(took):
            estimate.learn(took, LEAD, TAIL, SYNC)
        else:
            told.append(estimate.estimate(took)[2])
    assert told[-1] == pytest.approx(SYNC, rel=0.3)
    assert all(0 <= wait <= COMPUTE for wait in told)


def test_passes_beside_the_model_have_every_account_read():
    rank = Rank()
    for _ in range(100):
        rank.go()
    rank.estimate.is_mixed = True
    for _ in range(20):
        rank.go()
    assert all(rank.read[-20:])


def test_a_pass_shorter_than_what_is_known_of_it_waits_for_nothing():
    estimate = SyncEstimate()
    estimate.learn(COMPUTE + SYNC, LEAD, TAIL, SYNC)
    lead, tail, wait = estimate.estimate(1000)
    assert (lead, tail, wait) == (1000, 0, 0)
