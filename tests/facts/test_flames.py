from __future__ import annotations

import random

import pytest

from perfdoctor.facts.flames import MOST_FRAMES, flames, thread_uses
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.timeline import Timeline
from perfdoctor.render.html.report import html
from tests.support import reports
from tests.support.facts import step
from tests.support.records import no_source, records, rows, update

LOOP = "main (/home/ada/train.py:7)"
WRAPPER = "backward (/x/perfdoctor/probe/steps/phases.py:9)"
TORCH = "backward (/x/lib/python3.11/site-packages/torch/_tensor.py:{})"


WAIT = "Condition.wait (/usr/lib/python3.11/threading.py:327)"


def trees(*stacks):
    return flames(of(stacks), 0, Sources(no_source), {})


def of(stacks):
    return records(rows([update()]), stacks=stacks, run={"cwd": "/home/ada"})


def test_frames_of_a_phase_are_added_up_and_their_owner_is_told():
    (tree,) = trees(
        (("main", LOOP, WRAPPER, TORCH.format(1)), 30),
        (("main", LOOP, WRAPPER, TORCH.format(2)), 20),
        (("main", LOOP), 50),
    )
    told = [(each.name, each.place, each.owner, each.depth, each.left, each.width) for each in tree.frames]
    assert told == [
        ("backward", "", "phase", 0, 0.0, 0.5),
        ("main", "train.py:7", "user", 1, 0.0, 0.5),
        ("backward", "torch/_tensor.py", "torch", 2, 0.0, 0.5),
        ("other", "", "phase", 0, 0.5, 0.5),
        ("main", "train.py:7", "user", 1, 0.5, 0.5),
    ]


def test_workers_are_one_tree_and_other_threads_another_by_name():
    tree, workers, others = trees(
        (("main", LOOP), 1),
        (("worker 3", LOOP), 2),
        (("worker *", LOOP), 3),
        (("worker 4 thread QueueFeederThread", WAIT), 9),
        (("thread pool-0_1", LOOP), 4),
        (("thread pool-0_2", LOOP), 5),
    )
    assert (tree.samples, workers.samples, len(workers.frames)) == (1, 5, 1)
    assert [(each.name, each.owner, each.samples, each.idle) for each in others.frames] == [
        ("QueueFeederThread in a loader worker", "thread", 9, 9),
        ("Condition.wait", "library", 9, 9),
        ("pool-*", "thread", 9, 0),
        ("main", "user", 9, 0),
    ]


def test_a_frame_tells_how_many_of_its_samples_wait_and_idle():
    (tree,) = trees((("main", LOOP), 3), (("main", LOOP, WAIT), 1))
    assert [(each.samples, each.waiting, each.idle) for each in tree.frames] == [
        (4, 1, 0),
        (4, 1, 0),
        (1, 1, 0),
    ]


def test_each_thread_has_a_row_the_training_thread_first():
    run = of(
        [
            (("thread saver", LOOP, WAIT), 90),
            (("thread the worker thread of ada", WAIT), 50),
            (("worker 3", WAIT), 7),
            (("main", LOOP), 5),
        ]
    )
    rows_ = thread_uses(run, 0, Sources(no_source), {})
    assert [(row.name, row.samples, row.waiting, row.idle) for row in rows_] == [
        ("training process", 5, 0, 0),
        ("loader workers", 7, 0, 7),
        ("saver", 90, 90, 0),
        ("the worker thread of ada", 50, 0, 50),
    ]
    assert thread_uses(of([]), 7, Sources(no_source), {}) == ()


def test_frames_narrower_than_a_thousandth_are_folded_together():
    (tree,) = trees(
        (("main", LOOP), 9_970), *(((("main", f"f{place} (/home/ada/train.py:9)")), 3) for place in range(10))
    )
    assert [(each.name, each.samples) for each in tree.frames] == [
        ("other", 10_000),
        ("main", 9_970),
        ("10 narrow frames", 30),
    ]


def test_five_thousand_stacks_stay_below_300_kilobytes():
    drawn = random.Random(5)
    names = [
        f"function_with_a_long_name_{number} (/home/ada/folder/module.py:{number})" for number in range(40)
    ]
    stacks = [
        ((thread, *(drawn.choice(names) for _ in range(30))), 1)
        for thread in ("main", "worker 3")
        for _ in range(5_000)
    ]
    found = trees(*stacks)
    assert all(50 < len(tree.frames) < 2 * MOST_FRAMES for tree in found)
    base = len(html(reports.STARVED, over_time()))
    assert len(html(reports.STARVED, over_time(found)).encode()) - base < 300_000


def over_time(found=()):
    return Timeline(1.0, None, flames=found)


def test_gradients_exchanged_inside_backward_are_a_phase_of_their_own_that_waits():
    run, spent = of([(("main", LOOP, WRAPPER, TORCH.format(1)), 80)]), step(backward=20, grad_sync=60).seconds
    (tree,) = flames(run, 0, Sources(no_source), spent)
    phases = [(each.name, each.samples, each.waiting) for each in tree.frames if each.owner == "phase"]
    assert phases == [("grad sync", 60, 60), ("backward", 20, 0)]
    (thread,) = thread_uses(run, 0, Sources(no_source), spent)
    assert (thread.samples, thread.waiting) == (80, 60)


@pytest.mark.parametrize("stacks", [(), ((("main",), 0),)])
def test_without_samples_there_is_no_tree(stacks):
    assert trees(*stacks) == ()
