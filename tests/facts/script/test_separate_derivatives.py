from __future__ import annotations

import pytest

from perfdoctor.facts.script.separate_derivatives import separate_derivatives_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.support.records import source_of

SOURCES = Sources(source_of(train="u_x = derive(u, x)\nu_t = derive(u, t)\n"))
LINES = [{"file": "/home/me/train.py", "line": line, "function": "loss"} for line in (1, 2)]
LOOK = {
    "event": "derivatives",
    "calls": 3,
    "again": 1,
    "seconds": 0.03,
    "again_s": 0.01,
    "backward_s": 0.07,
    "again_nodes": 20,
    "lines": LINES,
}


def found(*looks):
    events = tuple({**LOOK, **look} for look in looks)
    return separate_derivatives_facts(RankRecords(0, None, None, events), SOURCES)


def test_the_median_of_the_looks():
    facts = found({}, {}, {"again_s": 0.02})
    assert (facts.calls, facts.again, facts.through) == (3, 1, True)
    assert (facts.share, facts.again_share) == (pytest.approx(0.3), pytest.approx(0.1))
    assert [place.text for place in facts.at] == ["u_x = derive(u, x)", "u_t = derive(u, t)"]


def test_calls_that_make_no_graph_leave_backward_alone():
    assert not found({"again_nodes": 0}).through


def test_calls_that_took_no_time_tell_nothing():
    assert found({"seconds": 0.0, "again_s": 0.0, "backward_s": 0.0}) is None


def test_no_look_no_fact():
    assert found() is None
