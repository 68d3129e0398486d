from __future__ import annotations

import pytest

from perfdoctor.facts.script.repeated_backward import repeated_backward_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader
from tests.support.records import source_of

SOURCES = Sources(source_of(train="a\nb\nloss.backward(retain_graph=True)\n"))
AT = {"file": "/home/me/train.py", "line": 3, "function": "main"}


def found(*pairs):
    common = {"event": "repeated_backward", "at": AT}
    events = tuple({**common, "nodes": nodes, "shared": shared} for nodes, shared in pairs)
    return repeated_backward_facts(RankRecords(0, None, None, events), SOURCES)


def test_the_median_of_the_pairs():
    facts = found((10, 9), (10, 8), (10, 0))
    assert (facts.shared, facts.compared) == (pytest.approx(0.8), 3)
    assert facts.at.text == "loss.backward(retain_graph=True)"


@pytest.mark.parametrize("pairs", [(), ((10, 0), (10, 0)), ((10, 9), (10, 0), (10, 0)), ((0, 0),)])
def test_graphs_without_a_common_part_are_none(pairs):
    assert found(*pairs) is None


def test_batches_that_accumulate_in_a_step_are_told_of():
    pair = {"event": "repeated_backward", "at": AT, "nodes": 10, "shared": 9}
    rank = RankRecords(0, None, None, (pair,))
    assert repeated_backward_facts(rank, SOURCES).batches == 1.0
    assert repeated_backward_facts(rank, SOURCES, loader(batches_per_step=4.0)).batches == 4.0


def repeated_pass(seconds, other_s, adds=False):
    ends = {"adds": adds, "other_adds": True, "at": AT, "other_at": None}
    return {"event": "repeated_pass", "seconds": seconds, "other_s": other_s, **ends}


def test_a_pass_is_told_by_what_each_of_the_two_takes_at_the_least():
    events = (repeated_pass(0.9, 0.4), repeated_pass(0.2, 0.9), repeated_pass(0.3, 0.3))
    facts = repeated_backward_facts(RankRecords(0, None, None, events), SOURCES)
    assert (facts.shared, facts.compared, facts.at) == (0.0, 0, None)
    same = facts.same
    assert (same.seconds, same.other_s, same.compared) == (0.2, 0.3, 3)
    assert (same.adds, same.other_adds) == (False, True)
    assert same.at.text == "loss.backward(retain_graph=True)"
