from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.recorded import recorded
from perfdoctor.model.measured import Phase
from tests.support.records import records, rows, update

PROBE = "backward (/x/perfdoctor/probe/steps/phases.py:9)"
LINE, INSIDE = "main (/home/ada/train.py:7)", "run (/home/ada/loss.py:2)"


def test_steps_count_from_the_start_of_the_run_and_keep_their_phases():
    table = rows([update(10, forward=4, samples=8, loss=0.5), update(20, data_wait=5)])
    steps = recorded(records(table, run={"started_epoch_s": 5.0})).steps
    assert [step.seconds for step in steps] == pytest.approx([0.01, 0.02])
    assert steps[0].begin_s == pytest.approx(0.6)
    assert (steps[0].phases[Phase.FORWARD], steps[0].loss) == (pytest.approx(0.004), 0.5)
    assert steps[1].loss is None
    assert [sum(step.phases.values()) for step in steps] == pytest.approx([0.01, 0.02])


def test_a_stack_tells_its_thread_and_phase_without_frames_of_the_probe():
    stacks = [
        (("main", LINE, PROBE, INSIDE), 3),
        (("main", LINE), 2),
        (("worker 9", INSIDE), 1),
        (("main", LINE, PROBE.replace(":9", ":10"), INSIDE), 4),
        ((), 9),
    ]
    run = records(rows([update()]), stacks=stacks)
    run = replace(run, ranks={0: replace(run.ranks[0], stacks_rate_hz=20.0)})
    found = recorded(run)
    assert found.sample_s == 0.05
    assert [(stack.thread, stack.phase, stack.frames, stack.samples) for stack in found.stacks] == [
        ("main", "backward", (LINE, INSIDE), 7),
        ("main", "other", (LINE,), 2),
        ("worker 9", "loader", (INSIDE,), 1),
    ]


def test_samples_of_backward_in_which_gradients_were_exchanged_are_in_the_phase_of_that():
    table = rows([update(10, backward=2, grad_sync=6)] * 3)
    stacks = [(("main", LINE, PROBE, INSIDE), 80), (("main", INSIDE), 900), (("thread a", LINE, PROBE), 8)]
    found = recorded(records(table, stacks=stacks))
    assert [(stack.thread, stack.phase, stack.samples) for stack in found.stacks] == [
        ("main", "backward", 20),
        ("main", "grad_sync", 60),
        ("main", "other", 900),
        ("thread a", "backward", 8),
    ]


def test_collectives_of_the_scripts_own_leave_backward_as_it_is():
    table = rows([update(10, backward=2, grad_sync=6)] * 3)
    own = PROBE.replace("backward", "grad_sync")
    found = recorded(records(table, stacks=[(("main", PROBE, LINE), 20), (("main", own, LINE), 60)]))
    assert [(stack.phase, stack.samples) for stack in found.stacks] == [("backward", 20), ("grad_sync", 60)]


def test_samples_of_processes_keep_what_is_known_of_them():
    host = [{"t_ns": 2_400_000_000, "procs": [{"pid": 7, "role": "main", "cpu_s": 1.5, "rss_bytes": None}]}]
    (sample,) = recorded(records(host=host)).host
    assert (sample.at_s, sample.pid, sample.cpu_s, sample.rss_bytes) == (pytest.approx(2.0), 7, 1.5, None)


def test_a_run_that_holds_nothing_gives_nothing():
    found = recorded(replace(records(), ranks={}))
    assert (found.steps, found.host, found.stacks, found.sample_s) == ((), (), (), None)
