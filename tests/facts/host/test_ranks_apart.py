from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import pytest

from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.host.ranks_apart import RanksApart, ranks_apart
from perfdoctor.model.missing import Missing
from tests.support import job_facts
from tests.support.records import records, rows, update

RUN = records(rows([update()] * 3))


def apart(*others, watched=(0,), told=None, world=None, bound=()):
    """What is told of ranks with these (node, cores) beside rank 0, where `watched` are in its folder.

    `bound`: the cores that each may run on, rank 0 first.
    """
    own = replace(RUN.ranks[0], node="a", job={"local_world": told} if told else {})
    ranks = [
        job_facts.rank(number, node=node, cores=cores)
        for number, (node, cores) in enumerate([("a", 1.0), *others])
    ]
    ranks = [replace(one, core_list=cores) for one, cores in zip_longest(ranks, bound)]
    job = replace(job_facts.job(len(ranks), slow=None), ranks=tuple(ranks), world=world or len(ranks))
    run = replace(RUN, ranks={rank: replace(own, rank=rank) for rank in watched})
    return ranks_apart(run, own, AllRanks(job)).cores


def test_ranks_of_the_host_with_a_watcher_of_their_own_are_added_up():
    assert apart(("a", 1.5), ("a", 0.5)) == pytest.approx(2.0)


def test_neither_ranks_of_other_hosts_nor_those_of_the_same_folder_are_apart():
    assert apart(("b", 1.5), ("a", 0.5), ("b", 3.0)) == pytest.approx(0.5)
    assert apart(("a", 1.5), ("a", 0.5), watched=(0, 1, 2)) == 0.0


def test_ranks_that_are_bound_to_other_cores_take_none_of_this_ones():
    assert apart(("a", 1.5), ("a", 0.5), bound=("0-1", "2-3", "0-1")) == pytest.approx(0.5)
    assert apart(("a", 1.5), ("a", 0.5), bound=("0-1", "2-3", None)) == pytest.approx(2.0)


def test_where_one_of_them_is_not_known_nothing_is():
    assert apart(("a", 1.5), ("a", None)) is None
    assert apart(("a", 1.5), world=3) is None
    assert apart(("a", 1.5), told=4, world=8) is None
    assert apart(("a", 1.5), told=2, world=8) == pytest.approx(1.5)


def test_a_rank_without_a_record_is_among_the_processes_of_the_watcher_of_all():
    assert apart(("a", 1.5), watched=(0, 1), told=3, world=3) == 0.0


def test_a_process_alone_has_no_ranks_beside_it():
    assert ranks_apart(RUN, RUN.ranks[0], None) == RanksApart(0.0)
    assert ranks_apart(RUN, RUN.ranks[0], Missing("nothing")) == RanksApart(0.0)
