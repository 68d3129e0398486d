from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.host.rank_cores import RankCores, apart_from, on_node, rank_cores
from perfdoctor.model.missing import Missing
from tests.support import job_facts
from tests.support.facts import cpu, run
from tests.support.records import records, rows, update

OWN = replace(records(rows([update()] * 3)).ranks[0], node="a")


def job(*lists, node="a"):
    """A job whose ranks may run on these cores."""
    ranks = [job_facts.rank(number, node=node, core_list=one) for number, one in enumerate(lists)]
    return replace(job_facts.job(len(ranks), slow=None), ranks=tuple(ranks))


def cores(*lists, usable=8.0, ranks=None):
    return rank_cores(OWN, run(ranks=ranks or len(lists)), cpu(cores=usable), AllRanks(job(*lists)))


def test_ranks_that_may_run_on_the_same_cores_share_them():
    assert cores("0-7", "0-7") is None
    assert cores("0-3", "2-5", "4-7") is None  # the first and the last by way of the one between


def test_a_rank_that_is_bound_has_its_cores_to_itself_or_with_those_bound_like_it():
    assert cores("0-3", "4-7") == RankCores(4.0, 1)
    assert cores("0-1,4", "4-5", "2,6-7") == RankCores(4.0, 2)
    assert cores("0-3", "4-7", usable=2.0) == RankCores(2.0, 1)  # a quota


@pytest.mark.parametrize("other", [None, "", "all", "4-", "-1"])
def test_where_it_is_not_known_of_every_rank_of_the_node_nothing_is_told(other):
    assert cores("0-3", other) is None
    assert cores("0-3", "4-7", ranks=3) is None


def test_a_process_alone_has_none():
    assert rank_cores(OWN, run(), cpu(), None) is None
    assert rank_cores(OWN, run(), cpu(), Missing("nothing")) is None


def test_each_rank_has_its_part_of_the_cores_and_of_what_others_keep_busy():
    of_all = cpu(cores=8, busy=6.0, main_cores=1.5, worker_cores=0.5, other_cores=0.8, whole_cores=4.0)
    own = RankCores(4.0, 2).each(of_all)
    assert (own.usable_cores, own.whole_cores, own.busy_cores) == (2.0, 1.0, 2.0)
    assert own.other_cores == pytest.approx(0.2)
    assert RankCores(8.0, 1).each(cpu(cores=8, busy=None)).busy_cores is None


def test_ranks_that_are_bound_to_other_cores_are_apart():
    assert apart_from(job("0", "1", "0-1"), "a", [0]) == frozenset()
    assert apart_from(job("0", "1", "2-3"), "a", [0]) == {1, 2}
    assert apart_from(job("0", None), "a", [0]) == frozenset()
    assert apart_from(job("0", "1"), "b", [0]) == frozenset()


def test_the_cores_of_a_node_are_those_of_all_its_ranks_where_each_has_its_own():
    bound = job("0-1", "2-3", "4")
    assert on_node(bound, bound.ranks[0], 2.0) == 5
    assert on_node(bound, bound.ranks[0], 1.5) == 1.5  # a quota
    told_of_one = job("0-1", None)
    assert on_node(told_of_one, told_of_one.ranks[0], 2.0) == 2
