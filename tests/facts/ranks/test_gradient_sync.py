from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.ranks.gradient_sync import gradient_sync_facts, in_one, startup_share
from perfdoctor.model.measured import Phase
from perfdoctor.runs.types import RankRecords
from tests.support import facts, line_facts, ranks


def exchange(*late, **given):
    return ranks.job_facts(ranks.team(*(late or ({}, {})), **given)).gradient_sync


def test_what_ddp_exchanges_in_a_step():
    found = exchange(calls=({"op": 1, "flags": 2, "bytes": 6_000_000, "buckets": 3},))
    assert (found.kind, found.ranks, found.bytes) == ("DistributedDataParallel", 2, 6_000_000)
    assert (found.exchanges, found.buckets) == (1.0, 3.0)
    assert (found.busy_s, found.moving_s, found.exposed_s) == pytest.approx((0.003, 0.003, 0.002), rel=1e-3)
    assert found.hidden == pytest.approx(1 / 3, rel=1e-3)
    assert found.bus_bytes_per_s == pytest.approx(2e9, rel=1e-3)  # an all-reduce of two sends each byte once


def test_what_the_script_exchanges_beside_ddp_is_told_apart():
    ddp = {"op": 1, "flags": 2, "bytes": 6_000_000, "buckets": 3}
    own = {"op": 1, "bytes": 1_000_000, "buckets": 1}
    both = exchange(calls=(ddp, own, own))
    assert both.kind == "DistributedDataParallel"
    assert (both.own_calls, both.own_bytes) == (2.0, 2_000_000)
    assert 0.0 < both.own < 1.0
    for alone in (exchange(calls=(ddp,)), exchange(calls=(own, own))):  # nothing is beside anything
        assert (alone.own, alone.own_calls, alone.own_bytes) == (0.0, 0.0, 0)


def test_waiting_is_no_moving():
    found = exchange({}, {"data_wait": 7.0}, {})
    assert found.waiting_s == pytest.approx(0.007, rel=1e-3)
    assert (found.moving_s, found.exposed_s) == pytest.approx((0.003, 0.002), rel=1e-2)


def test_of_two_ranks_the_one_that_waits_tells_how_long():
    found = exchange({}, {"data_wait": 7.0})
    assert found.waiting_s == pytest.approx(0.007, rel=1e-3)
    assert (found.busy_s, found.moving_s, found.exposed_s) == pytest.approx((0.010, 0.003, 0.002), rel=1e-2)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_kinds_of_collectives_are_parts_of_the_whole_whichever_rank_is_late(late):
    found = exchange(*({"data_wait": 7.0} if rank == late else {} for rank in range(3)))
    assert found.busy_s == pytest.approx(0.010, rel=1e-2)
    assert found.by_kind["all_reduce"] == pytest.approx((1.0, found.bytes, found.busy_s), rel=1e-6)


def test_of_several_collectives_the_time_is_covered_once_and_told_by_kind():
    calls = ({"op": 2, "flags": 1, "bytes": 8_000_000}, {"op": 3, "flags": 1, "bytes": 4_000_000})
    found = exchange(calls=calls, hidden=0.0)
    assert found.kind in found.by_kind
    assert found.exchanges == 1.0
    assert found.busy_s == pytest.approx(0.001, rel=0.01)  # both of 1 ms, and they end together
    assert found.by_kind["all_gather"] == pytest.approx((1.0, 8_000_000, 0.001), rel=1e-3)


def test_the_ring_sends_nearly_twice_the_bytes_of_an_all_reduce():
    found = exchange(*[{}] * 8, calls=({"op": 1, "flags": 2, "bytes": 3_000_000},))
    assert found.bus_bytes_per_s == pytest.approx(3e6 * 2 * 7 / 8 / 0.003, rel=1e-3)


def test_the_ring_is_that_of_the_group_that_exchanges():
    found = ranks.job_facts(ranks.apart(ranks.team({}, {}), ranks.team({}, {}))).gradient_sync
    assert found.ranks == 2
    assert found.bus_bytes_per_s == pytest.approx(1e6 / 0.003, rel=1e-3)  # two send each byte once


def test_what_a_device_does_is_not_timed():
    assert exchange(calls=({"op": 1, "flags": 2 | 8},)) is None


def test_small_collectives_take_as_long_to_set_out_whatever_their_size():
    assert startup_share(0) == 1.0
    assert startup_share(1 << 20) == 0.5
    assert startup_share(100e6) < 0.02


def test_what_many_small_collectives_cost_is_their_own_fault():
    assert in_one(facts.exchange()) == 1.0
    assert in_one(facts.exchange(buckets=60.0, bytes=1_000_000)) == pytest.approx(0.03, abs=0.01)
    assert in_one(facts.exchange(buckets=10.0, bytes=250_000_000)) > 0.95


def test_exposed_is_what_moves_and_what_other_programs_hold_up_is_left_out():
    found = facts.exchanged(moving=10, waiting=30)
    assert (found.exposed, found.each_s) == pytest.approx((0.1, 0.010))
    assert facts.exchanged(moving=10, crowded=4).exposed == pytest.approx(0.06)


def of_window(wrappers=(), shown=None):
    """What a device's window says of a fifth of the time, in a run with these events of wrappers."""
    job = replace(ranks.job_facts(ranks.team({}, {})), gradient_sync=None)
    if shown is not None:
        job = replace(job, ranks=(shown, *job.ranks[1:]))
    events = tuple({"event": "wrapper", "at": {"file": "train.py", "line": 22}, **each} for each in wrappers)
    device = facts.device(exposed_comm=0.2, comm=0.5)
    return gradient_sync_facts(device, AllRanks(job), None, RankRecords(0, None, None, events))


def test_a_window_of_a_device_leaves_how_the_model_is_wrapped_to_the_script():
    found = of_window([{"kind": "DataParallel"}, {"kind": "FSDP", "at": {"file": "train.py", "line": 31}}])
    assert (found.kind, found.at.line, found.exposed) == ("FSDP", 31, 0.2)
    assert of_window().kind is None


def test_what_a_ranks_kernels_wait_for_a_late_rank_is_no_gradient_sync():
    found = of_window(shown=facts.among(moving=2, waiting=15))
    assert (found.exposed, found.all) == pytest.approx((0.05, 0.35))
    assert of_window(shown=facts.among(waiting=90)).exposed == 0.0


@pytest.mark.parametrize("wrapped", [True, False])
def test_it_is_where_the_model_was_wrapped_else_where_collectives_are_called(wrapped):
    job = ranks.job_facts(ranks.team({}, {}))
    wrapper = facts.exchange().at if wrapped else None
    job = replace(job, gradient_sync=replace(job.gradient_sync, at=wrapper))
    lines = line_facts.lines((60, Phase.BACKWARD, 5.0), (38, Phase.GRAD_SYNC, 3.0), (9, Phase.GRAD_SYNC, 1.0))
    found = gradient_sync_facts(None, AllRanks(job), lines, RankRecords(0, None, None, ()))
    assert found.at.line == (wrapper.line if wrapped else 38)
    assert gradient_sync_facts(None, AllRanks(job), None, RankRecords(0, None, None, ())).at == wrapper


@pytest.mark.parametrize("kind", ["FSDP", "FullyShardedDataParallel"])
def test_what_shards_the_model_is_told_apart(kind):
    wrapped = {"event": "wrapper", "kind": kind}
    calls = ({"op": 2, "flags": 1, "bytes": 8_000_000},)
    team = ranks.team({}, {}, calls=calls)
    team = replace(team, ranks=[replace(own, events=(*own.events, wrapped)) for own in team.ranks])
    assert ranks.job_facts(team).gradient_sync.kind == kind
