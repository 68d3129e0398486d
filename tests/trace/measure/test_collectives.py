from __future__ import annotations

import pytest

from perfdoctor.trace.measure.collectives import match_collectives
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.columns import ProcessGroup
from perfdoctor.trace.results import RankTrace
from tests.support.traces import Recording

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def rank(
    number: int | None, *kernels: tuple[str, float, float], group: ProcessGroup | None = None
) -> RankTrace:
    made = Recording()
    made.kernel("gemm", 0, 1)
    for name, begin, end in kernels:
        made.kernel(name, begin, end, group=group)
    return measure(made.trace(rank=number))


def test_the_rank_with_the_shortest_kernel_was_waited_for() -> None:
    found = match_collectives([
        rank(0, (ALL_REDUCE, 10, 60), (ALL_REDUCE, 100, 108)),
        rank(1, (ALL_REDUCE, 55, 60), (ALL_REDUCE, 101, 108)),
        rank(2, (ALL_REDUCE, 30, 60), (ALL_REDUCE, 103, 108)),
    ])  # fmt: skip
    assert found is not None
    assert (found.matched, found.unmatched, found.late) == (2, 0, 1)
    assert [wait.waiting_us for wait in found.ranks] == [45.0 + 3.0, 2.0, 25.0]
    assert [wait.caused_us for wait in found.ranks] == [0.0, 70.0, 5.0]
    assert [wait.last for wait in found.ranks] == [0, 1, 1]


def test_of_a_tie_no_rank_came_last() -> None:
    found = match_collectives([
        rank(each, (ALL_REDUCE, 0, 80), (ALL_REDUCE, 100, 180 + each / 3)) for each in range(4)
    ])  # fmt: skip
    assert found is not None
    assert (found.matched, found.late) == (2, None)
    assert [(wait.last, wait.caused_us, wait.waiting_us) for wait in found.ranks] == [(0, 0.0, 0.0)] * 4


def test_for_several_that_came_last_the_others_waited_in_equal_parts() -> None:
    found = match_collectives([
        rank(0, (ALL_REDUCE, 10, 60)), rank(1, (ALL_REDUCE, 40, 60)), rank(2, (ALL_REDUCE, 40, 60.5))
    ])  # fmt: skip
    assert found is not None
    assert [wait.caused_us for wait in found.ranks] == [0.0, 15.0, 15.0]
    assert [wait.last for wait in found.ranks] == [0, 0, 0]


def test_ranks_that_their_traces_do_not_say_are_told_apart_all_the_same() -> None:
    found = match_collectives([
        rank(1, (ALL_REDUCE, 10, 60)), rank(None, (ALL_REDUCE, 30, 60)), rank(None, (ALL_REDUCE, 55, 60))
    ])  # fmt: skip
    assert found is not None
    assert [wait.rank for wait in found.ranks] == [1, 0, 2]
    assert found.late == 2


def test_clocks_of_ranks_need_not_agree() -> None:
    found = match_collectives([rank(0, (ALL_REDUCE, 10, 60)), rank(1, (ALL_REDUCE, 9055, 9060))])
    assert found is not None
    assert found.ranks[0].waiting_us == pytest.approx(45.0)


def test_names_that_ranks_did_not_run_equally_often_are_left_out() -> None:
    found = match_collectives([
        rank(0, (ALL_REDUCE, 10, 20), (BROADCAST, 30, 40)),
        rank(1, (ALL_REDUCE, 10, 20), (BROADCAST, 30, 40), (BROADCAST, 50, 60)),
    ])  # fmt: skip
    assert found is not None
    assert (found.matched, found.unmatched, found.late) == (1, 3, None)


def test_one_rank_or_none_in_common_says_nothing() -> None:
    assert match_collectives([rank(0, (ALL_REDUCE, 1, 2))]) is None
    assert match_collectives([rank(0), rank(1)]) is None


def test_collectives_of_different_groups_have_nothing_in_common() -> None:
    pair, others = ProcessGroup("1", "[0, 1]", 2), ProcessGroup("2", "[2, 3]", 2)
    found = match_collectives([
        rank(0, (ALL_REDUCE, 10, 60), group=pair), rank(1, (ALL_REDUCE, 40, 60), group=pair),
        rank(2, (ALL_REDUCE, 50, 60), group=others), rank(3, (ALL_REDUCE, 50, 60), group=others),
    ])  # fmt: skip
    assert found is not None
    assert (found.matched, found.unmatched, found.late) == (2, 0, 1)
    assert [wait.waiting_us for wait in found.ranks] == [30.0, 0.0, 0.0, 0.0]


def test_a_group_that_is_not_known_to_be_of_all_ranks_is_not_matched() -> None:
    pair = ProcessGroup("1", size=2)
    assert match_collectives([rank(each, (ALL_REDUCE, 10, 60), group=pair) for each in range(4)]) is None
    assert match_collectives([rank(each, (ALL_REDUCE, 10, 60), group=pair) for each in range(2)]) is not None
