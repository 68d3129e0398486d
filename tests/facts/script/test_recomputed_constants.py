from __future__ import annotations

import pytest

from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.script.recomputed_constants import recomputed_constant_facts
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import source_of

SOURCES = Sources(source_of(train="scale = adjacency.sum(1)\nreturn scale * adjacency"))


def look(number, seconds=0.002, step_s=0.01):
    return {"event": "constants_look", "look": number, "seconds": seconds, "step_s": step_s}


def line(look, number=1, seconds=0.001, **fields):
    at = {"file": "/home/me/train.py", "line": number}
    return {"event": "constants_line", "look": look, "seconds": seconds, "names": ["sum"], "at": at, **fields}


STEP = step(data_wait=4, forward=6)


def facts(*events, costs=()):
    below = StackCosts(100, costs, {}, frozenset()) if costs else Missing("no stacks")
    return recomputed_constant_facts(RankRecords(0, None, None, events), SOURCES, STEP, below)


def cost(phase, ms):
    frame = Frame("prepare", "/home/me/train.py", 1, Owner.USER)
    return StackCost(phase, (frame,), (), 20, ms / 1e3)


def test_shares_are_of_the_looked_at_steps_themselves():
    found = facts(look(1), look(2, 0.001), look(3, 0.004), look(4, 0.002, step_s=0.02))
    assert found.samples == 3
    assert (found.share.low, found.share.likely, found.share.high) == pytest.approx((0.1, 0.1, 0.4))


def test_lines_come_costliest_first_and_count_nothing_where_they_did_not_show():
    found = facts(look(2), look(3), look(4), *[line(number) for number in (2, 3, 4)], line(4, 2, 0.009))
    assert [(one.at.line, one.share) for one in found.lines] == [(1, pytest.approx(0.1)), (2, 0.0)]
    assert found.lines[0].at.text == "scale = adjacency.sum(1)"
    assert found.lines[0].names == ("sum",)


def test_a_line_that_prepares_items_takes_no_longer_than_stacks_saw_it():
    """A batch makes hundreds of calls, each of which is compared in a sampled step."""
    looks = [event for number in (2, 3, 4) for event in (look(number, 0.006), line(number, seconds=0.006))]
    found = facts(*looks, costs=(cost(Phase.DATA_WAIT, 1.0),))
    assert (found.share.low, found.share.likely, found.share.high) == pytest.approx((0.1, 0.1, 0.4))
    assert [(one.share, one.bottleneck) for one in found.lines] == [(pytest.approx(0.1), Bottleneck.DATA)]


def test_what_items_take_at_most_leaves_the_lines_of_the_model_alone():
    looks = [event for number in (2, 3, 4) for event in (look(number, 0.009), line(number, seconds=0.005))]
    model = [line(number, 2, 0.004) for number in (2, 3, 4)]
    found = facts(*looks, *model, costs=(cost(Phase.DATA_WAIT, 1.0),))
    assert (found.share.likely, found.share.high) == pytest.approx((0.5, 0.8))


def test_of_a_line_in_the_model_the_sampled_steps_tell():
    looks = [event for number in (2, 3, 4) for event in (look(number, 0.006), line(number, seconds=0.006))]
    found = facts(*looks, costs=(cost(Phase.FORWARD, 1.0),))
    assert found.share.likely == pytest.approx(0.6)
    assert [(one.share, one.bottleneck) for one in found.lines] == [(pytest.approx(0.6), Bottleneck.COMPUTE)]


def test_the_first_look_has_nothing_to_compare_with_and_one_more_is_too_few():
    assert facts(look(1), look(2), line(2)) is None
    assert facts(look(1), look(2, step_s=0.0), look(3)) is None
    assert facts(look(2), look(3)).lines == ()


def test_on_an_accelerator_it_could_not_be_measured():
    assert isinstance(facts({"event": "device", "backend": "cuda"}), Missing)


def test_broken_records_do_not_fail():
    assert facts(look(2), look(3), line(2, at=None), {"event": "constants_line"}).lines == ()
    assert facts({"event": "constants_look"}, look(None), look(2)) is None
