from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.facts.host.rank_cores import RankCores
from perfdoctor.facts.host.training_thread import TrainingThreadFacts
from perfdoctor.facts.predict.thread_team import ThreadTeam, thread_team
from perfdoctor.model.missing import Missing
from tests.support.facts import cpu, run, threads

# (network, ran, lacked, first ran, first lacked, rivals, speedup of one thread): of bench/crowded_threads.py
MEASURED = [
    ("linear-64", 0.27, 1.74, 0.13, 0.87, 1.74, 73.47),
    ("linear-256", 0.33, 1.67, 0.17, 0.83, 1.67, 35.85),
    ("linear-1024", 0.27, 1.72, 0.14, 0.86, 1.72, 3.89),
    ("lstm", 0.33, 1.67, 0.17, 0.83, 1.67, 5.83),
]


@pytest.mark.parametrize(
    ("ran", "lacked", "first_ran", "first_lacked", "rivals", "speedup"),
    [each[1:] for each in MEASURED],
    ids=[each[0] for each in MEASURED],
)
def test_what_one_thread_was_measured_to_bring_lies_in_the_range(
    ran, lacked, first_ran, first_lacked, rivals, speedup
):
    team = ThreadTeam(2, 2.0, rivals, ran, lacked, first_ran, first_lacked)
    assert team.is_held_up
    low, likely, high = team.speedups(1)
    assert low <= speedup <= high
    assert low < likely < high


def test_two_threads_beside_one_program_that_never_pauses_likely_lose_a_third_or_more():
    low, likely, high = ThreadTeam(2, 2.0, 0.7, 1.3, 0.65, 0.65, 0.33).speedups(1)
    assert low < 1.2 < 1.4 < likely < 3 < high  # on a quiet machine such a step took 4.1 times as long


def test_as_many_threads_as_have_cores_beside_the_others_fit():
    team = ThreadTeam(8, 8.0, 2.0, 7.0, 1.0, 0.875, 0.125)
    assert team.wanted_by_rivals == pytest.approx(2.0 * 8 / 7)
    assert team.fitting == 6
    assert team.speedups(8) == pytest.approx((1.0, 1.0, 1.0))
    assert team.speedups(6)[1] > team.speedups(7)[1] > 1.0


def test_teams_of_ranks_share_the_cores():
    team = ThreadTeam(4, 4.0, 0.0, 2.0, 2.0, 0.5, 0.5, teams=2)
    assert team.is_held_up
    assert team.fitting == 2
    assert not ThreadTeam(2, 4.0, 0.0, 2.0, 0.5, 1.0, 0.2, teams=2).is_held_up


@given(
    count=st.integers(1, 256),
    then=st.integers(1, 256),
    cores=st.floats(0.1, 256),
    rivals=st.floats(0, 256),
    ran=st.floats(0, 256),
    lacked=st.floats(0, 256),
    first=st.floats(0, 1),
    teams=st.integers(1, 16),
)
def test_what_fewer_bring_is_finite_and_ordered(count, then, cores, rivals, ran, lacked, first, teams):
    team = ThreadTeam(count, cores, rivals, ran, lacked, first, 1 - first, teams)
    if team.is_held_up:
        low, likely, high = team.speedups(then)
        assert 0 < low <= likely <= high < 1e6


def test_others_are_all_processes_but_the_one_that_trains():
    of_cpu = cpu(cores=4, busy=3.0, main_cores=1.5, worker_cores=1.0, other_cores=0.8, main_delay=0.4)
    of_kernel = TrainingThreadFacts(on_core=0.8, without_core=0.1)
    team = thread_team(run(), of_cpu, threads(4), of_kernel)
    assert team.rivals == pytest.approx(0.8 + 1.5)
    assert (team.ran, team.lacked, team.first_ran, team.first_lacked) == (1.5, 0.4, 0.8, 0.1)
    assert thread_team(run(ranks=2), of_cpu, threads(4), of_kernel).rivals == pytest.approx(0.8 + 2.0)


def test_a_rank_that_is_bound_to_cores_of_its_own_shares_them_with_no_other_rank():
    of_cpu = cpu(cores=4, busy=3.0, main_cores=1.5, worker_cores=0.0, other_cores=0.4, main_delay=0.4)
    of_kernel = TrainingThreadFacts(on_core=0.8, without_core=0.1)
    team = thread_team(run(ranks=2), of_cpu, threads(2), of_kernel, RankCores(2.0, 1))
    assert (team.cores, team.teams, team.rivals) == (2.0, 1, pytest.approx(0.2))
    assert not team.is_held_up
    assert thread_team(run(ranks=2), of_cpu, threads(4), of_kernel).is_held_up


def test_where_the_kernel_does_not_tell_nothing_is_said():
    team = thread_team(run(), cpu(cores=2, other_cores=1.5, main_cores=0.4), threads(2), Missing("untold"))
    assert team.together is None
    assert not team.is_held_up
