from __future__ import annotations

import pytest

from perfdoctor.facts.script.broadcast_distances import broadcast_distance_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import source_of

SOURCES = Sources(source_of(train="near = (x[:, None] - y).norm(dim=-1)\nlike = (x[:, None] * y).sum(-1)"))
TRAIN = "/home/me/train.py"
STEP = step(forward=6, backward=4)


def look(number, seconds=0.002):
    return {
        "event": "broadcast_distances_look", "look": number, "seconds": seconds, "backward_s": 0.001, "step_s": 0.01,
    }  # fmt: skip


def line(look, number=1, seconds=0.002, **fields):
    return {
        "event": "broadcast_distances_line", "look": look, "seconds": seconds, "backward_s": 0.001, "calls": 1,
        "names": ["sub"], "pairs": 4096, "width": 32, "kind": "distance", "at": {"file": TRAIN, "line": number},
        **fields,
    }  # fmt: skip


def facts(*events):
    return broadcast_distance_facts(RankRecords(0, None, None, events), STEP, SOURCES)


def test_lines_come_with_their_shares_of_the_sampled_steps_costliest_first():
    found = facts(
        look(1),
        look(2),
        line(1),
        line(2),
        line(1, 2, 0.001, kind="product"),
        line(2, 2, 0.001, kind="product"),
    )
    assert [(one.at.line, one.kind, one.pairs, one.width) for one in found.lines] == [
        (1, "distance", 4096, 32),
        (2, "product", 4096, 32),
    ]
    assert [one.share for one in found.lines] == pytest.approx([0.3, 0.2])
    assert found.share.likely == pytest.approx(0.3)
    assert found.samples == 2


def test_an_event_without_pairs_is_left_out():
    assert facts(look(1), look(2), line(1, pairs=0), line(2, pairs=0)).lines == ()


def test_one_look_tells_too_little():
    assert facts(look(1), line(1)) is None
