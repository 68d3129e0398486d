from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.ranks.rank_work import InputSize
from perfdoctor.facts.ranks.straggler import Habits, _why, among
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.ranks import RankFacts, Straggler
from tests.support import ranks


def late(*given, **more):
    return ranks.job_facts(ranks.team(*given, **more)).straggler


@pytest.mark.parametrize(
    ("phase", "cause", "told"),
    [
        ("data_wait", Bottleneck.DATA, "waiting for batches"),
        ("host_to_device", Bottleneck.TRANSFER, "copies to its device"),
        ("forward", Bottleneck.COMPUTE, "the forward pass"),
        ("backward", Bottleneck.COMPUTE, "the backward pass"),
        ("checkpoint", Bottleneck.HOST, "checkpoints"),
    ],
)
def test_the_cause_is_the_class_of_what_takes_the_late_rank_longer(phase, cause, told):
    found = late({}, {}, {phase: 4.0})
    assert (found.rank, found.cause, found.phase) == (2, cause, Phase(phase))
    assert found.why == f"it spends 4.00 ms a step longer than the median rank on {told}"
    assert found.behind_s == pytest.approx(0.004, rel=0.01)
    assert found.saved_s == pytest.approx(0.004, rel=0.01)
    assert (found.last, found.caused) == (1.0, 1.0)


@pytest.mark.parametrize("delay", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("count", [2, 8])
def test_a_planted_delay_is_told_within_a_twentieth(delay, count):
    found = late({"data_wait": delay}, *[{}] * (count - 1), noise=0.05, steps=400)
    assert found.behind_s == pytest.approx(delay / 1e3, rel=0.05)


def test_a_rank_that_is_late_now_and_then_is_told_with_its_mean():
    found = late({}, {}, {"forward": 20.0, "every": 4}, noise=0.05, steps=200)
    assert found.cause is Bottleneck.COMPUTE
    assert found.behind_s == pytest.approx(0.005, rel=0.05)
    assert found.excess_s == pytest.approx(0.005, rel=0.05)
    assert found.last < 0.6


@pytest.mark.parametrize("count", [2, 3, 8])
def test_ranks_that_take_turns_are_not_late(count):
    assert late(*[{}] * count, noise=0.5, steps=200) is None


def test_nor_is_one_by_less_than_a_hundredth_of_the_step():
    assert late({}, {"forward": 0.1}) is None


def test_all_ranks_of_a_node_can_be_late_together():
    nodes = ("a", "a", "b", "b", "c", "c")
    slow = {"forward": 4.0}
    found = late({}, {}, slow, slow, {}, {}, nodes=nodes, noise=0.05)
    assert found.whole_node
    assert (found.node, found.last) == ("b", 1.0)
    assert found.why.startswith("all 2 ranks of its node come late; ")
    assert found.saved_s == pytest.approx(0.004, rel=0.05)


# ---------------------------------------------------------------- what else is different

USUAL = Habits("a", 0.020, 0.010, 32.0, 0.0, 0.5, 0.5)


def why(phase=Phase.FORWARD, excess=4.0, **own):
    habits = [USUAL, USUAL, Habits(**{**vars(USUAL), **own})]
    return _why(phase, excess / 1e3, 2, [0, 1], habits)


def test_longer_samples_are_the_reason_where_there_are_no_more_of_them():
    usual, larger = InputSize(100.0, 2.0), InputSize(340.0, 5.0)
    habits = [replace(USUAL, input_size=usual)] * 2 + [replace(USUAL, input_size=larger)]
    assert _why(Phase.FORWARD, 0.004, 2, [0, 1], habits).endswith(
        "its model is called with 3.4 times as much as the median rank's, in as many samples"
    )


def called_with(*elements, more):
    """Two ranks that compute for 9 ms a step, of which the second does for `more` ms longer."""
    team = ranks.team({}, {"forward": more})
    own = [
        replace(each, events=({"event": "input_size", "elements": count},) * 8)
        for each, count in zip(team.ranks, elements, strict=True)
    ]
    return ranks.job_facts(replace(team, ranks=own)).straggler


def test_a_rank_is_late_by_what_it_is_given_where_that_can_take_it_so_long():
    late_ = called_with(100, 260, more=14.0)
    assert late_.more_data == pytest.approx(2.6)
    assert (late_.uneven, late_.charged_to) == (pytest.approx(7 / 26, rel=0.01), Bottleneck.NETWORK)


def test_a_slow_machine_is_late_for_itself_though_it_is_given_a_little_more():
    late_ = called_with(100, 120, more=18.0)  # 1.2 times as much takes no more than 1.44 times as long
    assert (late_.more_data, late_.uneven, late_.charged_to) == (None, 0.0, Bottleneck.COMPUTE)
    assert late_.saved_s == pytest.approx(0.018, rel=0.01)


def test_what_it_has_more_to_compute_on_the_others_would_share():
    ranks_ = [RankFacts(n, "a", 9, 0.060, {}, waiting_s=wait) for n, wait in enumerate((0.04, 0.04, 0.0))]
    late_ = Straggler(2, 3, 9, 1.0, 1.0, 0.0, Bottleneck.COMPUTE, 0.04, saved_s=0.04)
    assert among(late_, ranks_, 3, 1).saved_s == pytest.approx(0.04)
    assert among(replace(late_, more_data=3.0), ranks_, 3, 1).saved_s == pytest.approx(0.04 * 2 / 3)


def test_cores_that_others_have_are_the_reason_where_its_threads_wait_for_them():
    assert why(delay=0.2).endswith("others have its cores: for 4.00 ms of each step its threads wait for one")


def test_a_little_more_waiting_for_cores_is_not():
    assert "cores: for" not in why(delay=0.05)


def test_a_rank_may_have_more_samples():
    assert why(samples=48.0, cpu_s=0.014).endswith("its steps hold 48 samples, the median rank's 32")


def test_as_many_samples_may_take_it_more_cpu_time():
    assert "computes more for as many samples, or on slower cores (14.00 against 10.00 ms" in why(cpu_s=0.014)


def test_or_it_waits_in_what_is_charged_to_computing():
    assert why().endswith("it needs no more CPU time for it (10.00 against 10.00 ms of CPU time a step): "
                          "it waits for something")  # fmt: skip


def test_where_all_cores_are_taken_it_may_be_that():
    habits = [Habits("a", 0.020, 0.010, 32.0, 0.5, None)] * 3
    assert _why(Phase.BACKWARD, 0.004, 2, [0, 1], habits).endswith("others may have its cores")


def test_of_a_slow_loader_it_says_what_its_workers_do():
    told = why(Phase.DATA_WAIT, data_cores=0.1)
    assert told.endswith("its loader workers keep 0.1 cores busy, the median rank's 0.5")


def test_a_node_short_of_memory_is_named():
    assert why(available=0.02).endswith("its node has 2% of its memory left")
