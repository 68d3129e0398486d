from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.flame_difference import ComparedRun, run_difference
from perfdoctor.model.measured import Phase
from tests.support.facts import step
from tests.support.records import records, rows, update

LOOP, MOVED = "main (/home/ada/train.py:7)", "main (/home/bob/train.py:9)"
BACKWARD = "backward (/x/perfdoctor/probe/steps/phases.py:9)"
LINEAR = "linear (/x/lib/python3.11/site-packages/torch/nn/functional.py:3)"


def run(*stacks, cwd="/home/ada", mean=None):
    return ComparedRun(records(rows([update()]), stacks=stacks, run={"cwd": cwd, "id": "earlier"}), mean)


def frames(flame):
    return {frame.name: (frame.before, frame.after) for frame in flame.frames}


def test_timers_tell_how_long_a_phase_takes_and_samples_how_it_is_shared_out():
    before = run(
        (("main", LOOP, BACKWARD), 10), (("main", LOOP, BACKWARD, LINEAR), 30), mean=step(backward=8)
    )
    after = run((("main", LOOP, BACKWARD, LINEAR), 900), mean=step(backward=4))
    found = run_difference(before, after)
    assert (found.name, found.before[Phase.BACKWARD]) == ("earlier", pytest.approx(0.008))
    (flame,) = found.flames
    assert (flame.samples, flame.in_seconds) == ((40, 900), True)
    assert frames(flame)["backward"] == pytest.approx((0.008, 0.004))
    assert frames(flame)["linear"] == pytest.approx((0.006, 0.004))
    assert [frame.width for frame in flame.frames] == pytest.approx([1, 1, 10 / 12])


def test_functions_are_the_same_wherever_their_lines_and_folders_have_moved():
    before = run((("main", LOOP), 50), mean=step(other=10))
    after = run((("main", MOVED), 50), cwd="/home/bob", mean=step(other=10))
    (flame,) = run_difference(before, after).flames
    assert frames(flame)["main"] == pytest.approx((0.01, 0.01))


def test_a_frame_of_only_one_run_shows_with_nothing_in_the_other():
    (flame,) = run_difference(
        run((("main", LOOP), 50), mean=step(other=10)),
        run((("main", LINEAR), 50), mean=step(other=10)),
    ).flames
    assert frames(flame)["main"] == pytest.approx((0.01, 0))
    assert frames(flame)["linear"] == pytest.approx((0, 0.01))


@pytest.mark.parametrize(("counts", "sure"), [((3, 7), False), ((300, 700), True)])
def test_what_so_few_samples_can_show_by_chance_is_not_sure(counts, sure):
    sides = [
        run((("main", LOOP), seen), (("main", LINEAR), sum(counts) - seen), mean=step(other=10))
        for seen in counts
    ]
    (flame,) = run_difference(*sides).flames
    assert {frame.name: frame.is_sure for frame in flame.frames}["main"] is sure


def test_a_phase_that_no_sample_met_has_the_seconds_of_its_timer_and_nothing_below_it_is_sure():
    before = run(
        (("main", LOOP), 50), (("main", LOOP, BACKWARD, LINEAR), 50), mean=step(other=10, backward=2)
    )
    after = run((("main", LOOP), 50), mean=step(other=10, backward=4, forward=1))
    (flame,) = run_difference(before, after).flames
    assert frames(flame)["backward"] == pytest.approx((0.002, 0.004))
    assert frames(flame)["forward"] == pytest.approx((0, 0.001))
    assert (flame.before, flame.after) == pytest.approx((0.012, 0.015))
    assert flame.samples == (100, 50)
    sure = {frame.name: frame.is_sure for frame in flame.frames}
    assert (sure["backward"], sure["forward"], sure["linear"]) == (True, True, False)


def test_of_the_seconds_of_a_phase_the_timers_are_sure_however_few_its_samples():
    sides = [run((("main", LOOP), 2), mean=step(other=other)) for other in (10, 11)]
    (flame,) = run_difference(*sides).flames
    assert [(frame.name, frame.is_sure) for frame in flame.frames] == [("other", True), ("main", False)]


def test_workers_and_runs_without_a_step_are_compared_by_shares():
    before = run((("main", LOOP), 10), (("worker 3", LOOP), 30), (("worker 3", LINEAR), 10))
    after = run((("main", LOOP), 10), (("worker 9", LOOP), 1), (("worker 9", LINEAR), 1), mean=step(other=1))
    found = run_difference(before, after)
    main, workers = found.flames
    assert found.before == found.after == {}
    assert not main.in_seconds
    assert not workers.in_seconds
    assert frames(workers)["main"] == pytest.approx((0.75, 0.5))


def test_without_samples_in_both_there_is_nothing_to_lay_over_each_other():
    empty = ComparedRun(replace(records(), ranks={}), None)
    assert run_difference(run((("main", LOOP), 9)), run()).flames == ()
    assert run_difference(empty, run((("main", LOOP), 9))).flames == ()
