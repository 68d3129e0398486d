from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.straggler_rank import straggler_rank as tip
from tests.support import facts

WHY = "it spends 12.00 ms a step longer than the median rank on waiting for batches"


def test_names_the_rank_how_often_it_is_last_and_what_it_does_longer():
    advice = tip(facts.run(), facts.straggler(rank=3, waiting=0.3, excess=12))
    assert advice.because == (
        "rank 3 is the last of 8 to start 90 of 100 collectives",
        "the median other rank waits 30.0% of its time",
        "90% of all wait time is for rank 3",
        "it spends 12.00 ms a step longer than the median rank on compute",
    )
    assert advice.bottleneck is Bottleneck.COMPUTE


def test_of_a_run_it_says_why_and_on_which_node():
    advice = tip(facts.run(), facts.straggler(saved=0.25, why=WHY, node="node-b", nodes=2))
    assert advice.because[0] == "rank 3 on node-b is the last of 8 to start 90 of 100 gradient syncs"
    assert advice.because[-1] == WHY


def test_a_node_can_be_late_as_a_whole():
    advice = tip(facts.run(), facts.straggler(saved=0.25, why=WHY, node="node-b", nodes=2, whole_node=True))
    assert advice.because[0].startswith("the node of rank 3 on node-b is the last")


def test_the_gain_is_what_the_others_wait_for_it():
    gain = facts.gain(tip(facts.run(), facts.straggler(waiting=0.3)))
    assert gain.likely == pytest.approx(1 / (1 - 0.27))
    assert gain.high == pytest.approx(1 / 0.7)


def test_the_gain_of_a_run_is_how_much_sooner_all_would_go_on():
    share = tip(facts.run(), facts.straggler(waiting=0.3, saved=0.2, crowded=True)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.1, 0.2, 0.3))


def test_a_rank_that_is_late_now_and_then_and_by_much_is_late():
    assert tip(facts.run(), facts.straggler(last=20, saved=0.2)) is not None


def test_data_that_are_dealt_unevenly_are_dealt_anew_and_others_compute_more_then():
    dealt, model = Location("train.py", 40), Location("model.py", 3)
    late = facts.straggler(waiting=0.5, saved=0.2, more_data=3.0, dealt=(dealt,), lines=(model,))
    advice = tip(facts.run(), late)
    assert advice.at == (dealt,)
    assert advice.code.startswith("mine = batches[rank::world]")
    assert advice.change.step.high == pytest.approx(0.2)
    assert advice.bottleneck is Bottleneck.NETWORK
    crowded = tip(facts.run(), replace(late, crowded=True))
    assert crowded.bottleneck is Bottleneck.COMPUTE
    assert {advice.gains_like, crowded.gains_like} == {Bottleneck.COMPUTE}


def test_of_more_data_cores_are_not_to_blame():
    given = {"saved": 0.15, "why": WHY}
    assert tip(facts.run(device="cpu"), facts.straggler(**given)) is None
    assert tip(facts.run(device="cpu"), facts.straggler(**given, more_data=1.5)) is not None


def test_else_the_lines_at_which_it_takes_longer_are_named():
    lines = (Location("model.py", 3),)
    advice = tip(facts.run(), facts.straggler(saved=0.25, why=WHY, lines=lines))
    assert (advice.at, advice.spares, advice.code) == (lines, (), None)


def test_lines_that_take_the_others_nothing_would_be_spared():
    line = Location("model.py", 3)
    assert tip(facts.run(), facts.straggler(saved=0.25, lines=(line,), alone=(line,))).spares == (line,)
    dealt = facts.straggler(
        saved=0.25, lines=(line,), alone=(line,), more_data=2.0, dealt=(Location("a.py", 1),)
    )
    assert tip(facts.run(), dealt).spares == ()


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"waiting": 0.03}, id="little-waiting"),
        pytest.param({"last": 20}, id="ranks-take-turns"),
        pytest.param({"matched": 2, "last": 2}, id="too-few-collectives"),
        pytest.param({"saved": 0.049, "waiting": 0.3}, id="the-next-one-is-nearly-as-late"),
    ],
)
def test_is_silent(given):
    assert tip(facts.run(), facts.straggler(**given)) is None


def test_cores_that_are_a_little_slower_are_nobodys_fault():
    slow = {"saved": 0.19, "why": WHY}
    assert tip(facts.run(), facts.straggler(**slow)) is None
    assert tip(facts.run(), facts.straggler(**slow, crowded=True)) is not None
    assert tip(facts.run(), facts.straggler(saved=0.21, why=WHY)) is not None
    assert tip(facts.run(device="A100"), facts.straggler(**slow)) is not None


def test_where_other_programs_are_at_work_cores_differ_by_more():
    slow = {"saved": 0.25, "why": WHY}
    assert tip(facts.run(), facts.straggler(**slow, strangers=0.5)) is None
    assert tip(facts.run(), facts.straggler(**slow, strangers=0.1)) is not None
    assert tip(facts.run(), facts.straggler(**slow, strangers=0.5, crowded=True)) is not None
    assert tip(facts.run(), facts.straggler(saved=0.31, why=WHY, strangers=0.5)) is not None
