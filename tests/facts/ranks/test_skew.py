from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfdoctor.facts.ranks import skew
from perfdoctor.facts.ranks.skew import EVERYONE, Matcher, by_group, calls_of, members_of, spent, steady_mean
from perfdoctor.facts.ranks.skew_over_time import median_wait
from perfdoctor.facts.steps import boundaries
from tests.support import ranks

FSDP = tuple({"op": op, "flags": 1} for op in (2, 2, 3))


def matched(team, without=()):
    matcher = Matcher(team.world)
    for own in team.ranks:
        found = boundaries.settled(boundaries.find(own.steps))
        rows = own.collectives
        if own.rank in without:
            rows = rows[: without[own.rank]]
        calls = calls_of(rows, found)
        groups = by_group(calls, {}, team.world) if calls is not None else {}
        if EVERYONE in groups:
            matcher.add(own.rank, own.node, groups[EVERYONE], spent(found))
    return matcher.compare()


def group(number, ranks):
    return {"event": "group", "number": number, "ranks": ranks}


def test_who_is_blocked_least_came_last_and_what_others_are_blocked_longer_they_wait():
    found = matched(ranks.team({}, {"data_wait": 5.0}, {}))
    assert found.count == ranks.STEPS - 1  # in the first step ranks wait for whoever starts last
    assert set(found.last) == {1}
    assert found.moving_s == pytest.approx(0.002, rel=1e-3)
    assert found.waiting_s[0] == pytest.approx(0.005, rel=1e-3)
    assert found.waiting_s[1] == pytest.approx(0, abs=1e-9)
    assert found.waiting_share() == pytest.approx([5 / 7, 0, 5 / 7], rel=1e-3)


def test_clocks_of_nodes_need_not_agree():
    team = ranks.team({}, {"forward": 3.0}, nodes=("a", "b"), ahead={"b": 7200.0})
    found = matched(team)
    assert found.waiting_s[0] == pytest.approx(0.003, rel=1e-3)
    assert found.clock_error_s == pytest.approx(0, abs=1e-6)


def test_one_node_has_one_clock():
    assert matched(ranks.team({}, {})).clock_error_s is None


def test_exchanges_that_a_rank_lacks_are_left_out():
    assert matched(ranks.team({}, {}), {1: 20}).count == 19


def test_a_rank_with_next_to_nothing_is_left_out_instead():
    found = matched(ranks.team({}, {}, {}), {2: 3})
    assert (found.ranks, found.left_out) == ((0, 1), (2,))


@pytest.mark.parametrize(
    ("team", "without"),
    [
        pytest.param(ranks.team({}), {}, id="one-rank"),
        pytest.param(ranks.team({}, {}), {1: 4}, id="too-few-exchanges"),
        pytest.param(ranks.team({}, {}, calls=({"op": 1, "ranks": 1},)), {}, id="groups-of-fewer-ranks"),
        pytest.param(ranks.team({}, {}, calls=({"op": 1, "flags": 8},)), {}, id="not-timed-on-a-device"),
        pytest.param(ranks.team({}, {}, calls=({"op": 1, "flags": 4},)), {}, id="beside-the-exchange"),
    ],
)
def test_nothing_can_be_compared(team, without):
    assert matched(team, without) is None


def test_all_collectives_of_an_fsdp_step_are_one_exchange():
    found = matched(ranks.team({}, {"data_wait": 6.0}, calls=FSDP))
    assert found.count == ranks.STEPS - 1
    assert found.waiting_s[0] == pytest.approx(0.006, rel=1e-3)


def test_each_backward_of_ddp_ends_an_exchange_and_what_comes_after_the_last_belongs_to_it():
    calls = ({"op": 6}, {"op": 1, "flags": 2}, {"op": 1, "flags": 2}, {"op": 1})
    found = matched(ranks.team({}, {"data_wait": 8.0}, calls=calls))
    assert found.per_step == 2
    assert found.waiting_s[0].reshape(-1, 2)[0] == pytest.approx([0.004, 0.004], rel=1e-3)


def test_out_of_a_broadcast_only_waiting_for_its_root_counts():
    calls = ({"op": 4, "share": 0.5}, {"op": 1, "flags": 2, "share": 0.5})
    found = matched(ranks.team({"data_wait": 8.0}, {}, moving=4.0, calls=calls))
    # of 12 ms that rank 1 is blocked, half is in the broadcast: 4 ms of it until its root comes
    assert found.moving_s == pytest.approx(0.002, rel=1e-3)
    assert found.waiting_s[1] == pytest.approx(0.004 + 0.004, rel=1e-2)
    assert set(found.last) == {0}


def test_clocks_that_drift_apart_shift_no_broadcast():
    calls = ({"op": 4, "share": 0.5}, {"op": 1, "flags": 2, "share": 0.5})
    team = ranks.team({"data_wait": 8.0}, {}, moving=4.0, calls=calls, nodes=("a", "b"), ahead={"b": 7200.0})
    steady = matched(team)
    for rows in (team.ranks[1].steps, team.ranks[1].collectives):
        begun_ns = int(rows["begin_ns"][0])
        for name in ("begin_ns", "end_ns"):  # 1 % of half a second: what hours of usual clocks come to
            rows[name] += (rows[name].astype(np.int64) - begun_ns) // 100
    found = matched(team)
    assert found.waiting_s == pytest.approx(steady.waiting_s, abs=2e-4)
    assert found.clock_error_s == pytest.approx(0, abs=1e-5)


def test_steps_that_a_profiler_disturbed_do_not_count():
    team = ranks.team({}, {})
    team.ranks[1].steps["flags"][10:15] |= 2
    assert matched(team).count == ranks.STEPS - 6


def test_the_optimizer_makes_late_for_the_next_exchange():
    found = boundaries.find(ranks.team({"optimizer_ns": 3.0}, {}).ranks[0].steps)
    changed = found.phases | {skew.Phase.OPTIMIZER: np.arange(len(found.end_ns), dtype=float)}
    table = spent(replace(found, phases=changed))
    assert table[skew.SPENT.index(skew.Phase.OPTIMIZER), 1:4].tolist() == [0, 1, 2]


def test_of_many_ranks_some_steps_are_kept_the_same_ones_of_each(monkeypatch):
    monkeypatch.setattr(skew, "CELLS", 600)
    found = matched(ranks.team({}, {"data_wait": 5.0}, {}))
    assert found.stands_for == 2
    assert found.count == 19
    assert found.waiting_s[0] == pytest.approx(0.005, rel=1e-3)
    assert median_wait(found) == pytest.approx([5 / 17] * 18, rel=1e-2)


def test_a_lone_hiccup_does_not_move_the_mean():
    assert steady_mean(np.array([1.0] * 199 + [1000.0])) == 1.0
    assert steady_mean(np.array([0.0] * 160 + [10.0] * 40)) == 2.0


def test_a_group_is_known_by_its_ranks_and_the_default_one_is_everyone():
    assert members_of([group(0, None), group(1, [4, 0]), group(2, [3])]) == {1: (0, 4)}


def test_a_number_that_two_groups_share_tells_nothing():
    assert members_of([group(1, [0, 1]), group(1, [0, 2]), group(2, [0, 1]), group(2, [1, 0])]) == {2: (0, 1)}


def test_calls_go_to_their_groups_whatever_numbers_a_rank_gives_them():
    def keys(numbers):
        (own,) = ranks.team(
            {}, calls=({"op": 1, "ranks": 4}, {"op": 1, "ranks": 2}, {"op": 1, "ranks": 2})
        ).ranks
        for place, number in enumerate(numbers):
            own.collectives["group"][place::3] = number
        told = members_of([group(number, [0, 1]) for number in numbers[1:]])
        calls = calls_of(own.collectives, boundaries.find(own.steps))
        return {who: theirs.keys.tolist() for who, theirs in by_group(calls, told, 4).items()}

    found = keys((0, 1, 2))
    assert found == keys((0, 5, 9))
    assert len(found[EVERYONE]) == ranks.STEPS - 1
    assert len(set(found[0, 1])) == 2 * (ranks.STEPS - 1)  # two groups of the same ranks


def test_calls_of_a_group_that_nobody_tells_of_are_left_out():
    (own,) = ranks.team({}, calls=({"op": 1, "ranks": 2},)).ranks
    assert by_group(calls_of(own.collectives, boundaries.find(own.steps)), {}, 4) == {}
