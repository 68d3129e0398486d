from __future__ import annotations

import random

import pytest

from perfdoctor.facts.flames import MOST_FRAMES, flames
from perfdoctor.model.timeline import Timeline
from perfdoctor.render.html.report import html
from tests.support import reports
from tests.support.records import records, rows, update

LOOP = "main (/home/ada/train.py:7)"
WRAPPER = "backward (/x/perfdoctor/probe/steps/phases.py:9)"
TORCH = "backward (/x/lib/python3.11/site-packages/torch/_tensor.py:{})"


def trees(*stacks):
    return flames(records(rows([update()]), stacks=stacks, run={"cwd": "/home/ada"}), 0)


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


def test_workers_are_one_tree_without_the_threads_beside_them():
    tree, workers = trees(
        (("main", LOOP), 1),
        (("worker 3", LOOP), 2),
        (("worker 4", LOOP), 3),
        (("worker 4 thread QueueFeederThread", LOOP), 9),
    )
    assert (tree.samples, workers.samples, len(workers.frames)) == (1, 5, 1)


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


@pytest.mark.parametrize("stacks", [(), ((("main",), 0),)])
def test_without_samples_there_is_no_tree(stacks):
    assert trees(*stacks) == ()
