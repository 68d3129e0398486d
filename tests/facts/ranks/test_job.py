from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.note import Note
from tests.support import ranks
from tests.support.records import MS

DELAYED = {"data_wait": 5.0}


def samples(delays, cpu=0.5, busy=None, count=8, beside=0.2):
    """Samples of a host, in each of which every rank has run and lacked a core for some time more.

    A fifth of the work is that of threads beside the training thread, and `beside` of the lacking.
    """
    return [
        {
            "t_ns": (1000 + 80 * index) * MS,
            "usable_cores": 2,
            "machine_busy_cores": busy,
            "procs": [
                {
                    "pid": rank + 1,
                    "role": "main",
                    "rank": rank,
                    "cpu_s": cpu * 0.08 * index,
                    "threads_delay_s": delay * 0.08 * index,
                    "thread_cpu_s": 0.8 * cpu * 0.08 * index,
                    "thread_delay_s": (1 - beside) * delay * 0.08 * index,
                }
                for rank, delay in enumerate(delays)
            ],
        }
        for index in range(count)
    ]


def test_one_rank_alone_is_no_job():
    assert ranks.job_facts(ranks.team({})) is None


def test_every_rank_has_its_step_and_its_exchange_told_apart():
    facts = ranks.job_facts(ranks.team({}, DELAYED))
    early, late = facts.ranks
    assert (facts.world, facts.nodes, facts.matched) == (2, ("here",), ranks.STEPS - 1)
    assert early.mean_s == pytest.approx(late.mean_s)
    assert sum(early.seconds.values()) == pytest.approx(early.mean_s)
    assert (early.waiting_s, early.moving_s) == pytest.approx((0.005, 0.002), rel=1e-3)
    assert (late.waiting_s, late.moving_s) == pytest.approx((0.0, 0.002), abs=1e-6)
    assert (early.last, late.last) == (0, facts.matched)
    assert late.behind_s == pytest.approx(0.005, rel=1e-3)
    assert late.seconds[Phase.DATA_WAIT] == pytest.approx(0.006)


def test_the_cores_of_a_rank_are_those_of_its_last_sample_that_tells():
    team = ranks.team({}, {})
    procs = [{"role": "main", "rank": 0, "cores": "0-1"}, {"role": "worker", "rank": 1, "cores": "7"}]
    host = ({"procs": procs}, {"procs": [{"role": "main", "rank": 0, "cores": None}]}, {"procs": 2.5})
    told = ranks.job_facts(replace(team, ranks=[replace(one, host=host) for one in team.ranks]))
    assert [rank.core_list for rank in told.ranks] == ["0-1", None]


def test_waiting_is_charged_to_what_makes_the_others_late():
    facts = ranks.job_facts(ranks.team({}, DELAYED, {}))
    assert facts.shown == 0
    assert facts.waits == pytest.approx({Bottleneck.DATA: 0.005}, rel=1e-3)


def test_of_two_late_ranks_each_has_its_own_cause():
    facts = ranks.job_facts(
        ranks.team({}, {"data_wait": 6.0, "every": 2}, {"checkpoint": 3.0}, steps=60, noise=0.01)
    )
    assert facts.waits[Bottleneck.DATA] == pytest.approx(0.003, rel=0.1)
    assert facts.waits[Bottleneck.HOST] == pytest.approx(0.0015, rel=0.1)


def test_the_late_rank_itself_waits_for_nobody():
    facts = ranks.job_facts(ranks.team(DELAYED, {}))
    assert facts.shown == 0
    assert facts.waits == {}
    assert facts.straggler.rank == 0


def test_where_one_rank_recorded_its_exchanges_nothing_is_told_apart():
    team = ranks.team({}, DELAYED)
    facts = ranks.job_facts(replace(team, ranks=team.ranks[:1], missing=(1,)))
    assert (facts.matched, facts.straggler, facts.waits, facts.missing) == (0, None, {}, (1,))
    assert facts.ranks[0].moving_s == pytest.approx(0.007, rel=1e-3)
    assert facts.notes == (Note("one-rank-recorded", {"world": 2}),)


def test_processes_that_a_script_starts_itself_are_a_job_by_what_they_exchange():
    team = ranks.team({}, {})
    facts = ranks.job_facts(replace(team, ranks=team.ranks[:1], world=1))
    assert (facts.world, len(facts.ranks)) == (2, 1)


def test_a_rank_without_a_step_is_there():
    team = ranks.team({}, {}, {})
    idle = replace(team.ranks[2], steps=None, collectives=None)
    facts = ranks.job_facts(replace(team, ranks=[*team.ranks[:2], idle]))
    assert [rank.steps for rank in facts.ranks] == [ranks.STEPS, ranks.STEPS, 0]
    assert facts.matched == ranks.STEPS - 1


def test_groups_that_no_rank_tells_of_count_as_moving_and_that_is_said():
    calls = ({"op": 1, "flags": 2}, {"op": 2, "ranks": 2, "flags": 1})
    facts = ranks.job_facts(ranks.team({}, {"data_wait": 8.0}, {}, calls=calls))
    assert facts.ranks[0].waiting_s == pytest.approx(0.004, rel=1e-2)
    assert facts.ranks[0].moving_s == pytest.approx(0.006, rel=1e-2)
    assert [note.slug for note in facts.notes] == ["not-compared"]
    assert facts.notes[0].values["share"] == pytest.approx(0.5, rel=1e-2)


def test_each_group_waits_for_its_own_last_rank():
    facts = ranks.job_facts(ranks.apart(ranks.team({}, {"data_wait": 5.0}), ranks.team({"forward": 3.0}, {})))
    assert [rank.waiting_s for rank in facts.ranks] == pytest.approx([0.005, 0, 0, 0.003], abs=1e-6)
    assert [rank.moving_s for rank in facts.ranks] == pytest.approx([0.002] * 4, rel=1e-2)
    assert [rank.last for rank in facts.ranks] == [0, ranks.STEPS - 1, ranks.STEPS - 1, 0]
    assert {rank.matched for rank in facts.ranks} == {ranks.STEPS - 1}
    assert facts.waits == pytest.approx({Bottleneck.DATA: 0.005}, rel=1e-2)
    assert (facts.straggler.rank, facts.matched) == (1, ranks.STEPS - 1)  # of the group that waits most
    assert facts.notes == (Note("compared-in-groups"),)


def test_what_is_waited_in_a_group_and_among_all_adds_up():
    calls = ({"op": 1, "flags": 2, "ranks": 4}, {"op": 2, "ranks": 2, "flags": 1})
    pairs = [ranks.team({}, {"data_wait": 8.0}, calls=calls) for _ in range(2)]
    facts = ranks.job_facts(ranks.apart(*pairs))
    assert [rank.waiting_s for rank in facts.ranks] == pytest.approx([0.008, 0, 0.008, 0], abs=1e-5)
    assert facts.ranks[0].moving_s == pytest.approx(0.002, rel=1e-2)
    assert facts.notes == ()


def test_a_rank_that_makes_its_whole_group_late_is_found_in_that_group():
    # one rank waits in its pair for the other, and both together come last to what all exchange
    calls = ({"op": 1, "flags": 2, "ranks": 2}, {"op": 1, "ranks": 4})
    team = ranks.apart(*(ranks.team({}, late, calls=calls, moving=1.0) for late in ({"data_wait": 8.0}, {})))
    for number, own in enumerate(team.ranks):
        own.collectives["wait_ns"][1::2] = 5 * MS if number > 1 else 50_000
    facts = ranks.job_facts(team)
    assert (facts.straggler.rank, facts.straggler.cause) == (1, Bottleneck.DATA)
    assert (facts.ranks[1].last, facts.ranks[1].matched) == (ranks.STEPS - 1, ranks.STEPS - 1)


# ---------------------------------------------------------------- how ranks ended


def test_an_exit_and_a_hang_are_those_of_their_ranks():
    facts = ranks.job_facts(ranks.team({}, {}, {}, exits={1: "exit code 7"}, hangs={2: "train.py:20"}))
    assert [rank.ended for rank in facts.ranks] == [None, "exit code 7", None]
    assert [rank.inside for rank in facts.ranks] == [None, None, "train.py:20"]


def test_a_rank_is_in_the_collective_that_its_record_ends_in():
    team = ranks.team({}, {})
    now = {"begin_ns": 5_000 * MS, "step": 40, "bytes": 4_200_000, "op": "all_reduce"}
    stuck = replace(team.ranks[1], now=now, run={"end_ns": 36_000 * MS})
    facts = ranks.job_facts(replace(team, ranks=[team.ranks[0], stuck]))
    assert [rank.inside for rank in facts.ranks] == [None, "all_reduce of 4.2 MB for 31 s"]


# ---------------------------------------------------------------- cores


def with_host(team, told):
    return replace(team, ranks=[replace(own, host=told) for own in team.ranks])


def test_cores_that_others_have_are_named_as_the_reason_of_slow_computing():
    facts = ranks.job_facts(with_host(ranks.team({}, {"forward": 6.0}), samples((0.0, 0.4))))
    assert facts.ranks[1].delay == pytest.approx(0.4)
    assert "others have its cores" in facts.straggler.why


def test_a_rank_that_waits_for_others_needs_no_core_meanwhile():
    # a tenth of a second per second at work in both of them
    facts = ranks.job_facts(with_host(ranks.team({}, {"forward": 6.0}), samples((0.067, 0.1))))
    assert "cores" not in facts.straggler.why


def test_an_exchange_is_not_the_links_where_other_programs_have_its_cores():
    team = ranks.team({}, {}, moving=8.0)
    # beside the training thread a tenth of a core works; that thread lacks a core for as long as it runs
    crowded = ranks.job_facts(with_host(team, samples((0.5, 0.5), busy=2.0)))
    assert crowded.contention_s == pytest.approx(0.1 * crowded.ranks[0].mean_s, rel=0.01)
    assert ranks.job_facts(with_host(team, samples((0.5, 0.5), busy=1.1))).contention_s == 0.0
    assert ranks.job_facts(with_host(team, samples((50.0, 50.0), busy=2.0))).contention_s == pytest.approx(
        0.008
    )


def test_ranks_of_one_host_that_others_watched_are_no_strangers_there():
    team = ranks.team({}, {"forward": 6.0})
    told = [replace(own, run={"id": own.rank}, host=of_one(own.rank)) for own in team.ranks]
    busy = [
        replace(own, steps=with_cpu(own.steps, cores)) for own, cores in zip(told, (0.5, 1.4), strict=True)
    ]
    assert ranks.job_facts(replace(team, ranks=told)).straggler.strangers == pytest.approx(0.75)
    assert ranks.job_facts(replace(team, ranks=busy)).straggler.strangers == pytest.approx(0.5, abs=0.01)


def of_one(rank):
    """Samples of one rank alone on two cores, which are busy."""
    return [
        {**entry, "procs": [proc for proc in entry["procs"] if proc["rank"] == rank]}
        for entry in samples((0.0, 0.0), busy=2.0)
    ]


def with_cpu(steps, cores):
    """The same steps, in which the process kept so many cores busy."""
    steps = steps.copy()
    steps["process_cpu_ns"] = (steps["end_ns"] - steps["begin_ns"]) * cores
    return steps


def test_threads_that_a_slow_link_paces_lack_a_core_only_while_they_want_one():
    paced = ranks.job_facts(
        with_host(ranks.team({}, {}, moving=8.0), samples((0.5, 0.5), busy=2.0, beside=0.02))
    )
    assert paced.contention_s == pytest.approx(0.01 * paced.ranks[0].mean_s, rel=0.01)


def test_threads_that_lack_a_core_together_hold_a_rank_up_once():
    # a pool of threads that spin, in ranks whose cores are all taken: none of them lacks more than the other
    facts = ranks.job_facts(with_host(ranks.team({}, {"forward": 6.0}), samples((3.0, 5.0))))
    assert "others have its cores" not in facts.straggler.why
