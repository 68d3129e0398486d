from __future__ import annotations

import pytest

from perfdoctor.facts.host.inner_lines import inner_line
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from tests.support.records import source_of

MONITOR = """\
def counted(series):
    return [turns(one) for one in series]


def evaluate(model):
    known = counted(REFERENCE)
    made = counted(model())
    return distance(known, made)
"""
SOURCES = Sources(source_of(train="for step in loop:\n    scores = monitor(model)", monitor=MONITOR))


def at(number, function="evaluate", file="monitor"):
    return Frame(function, f"/home/me/{file}.py", number, Owner.USER)


CALL = at(2, "main", "train")


@pytest.mark.parametrize(
    ("ways", "found"),
    [
        pytest.param([((CALL, at(8)), 90), ((CALL, at(6)), 10)], 8, id="one-line"),
        pytest.param([((CALL, at(8)), 70), ((CALL, at(6)), 30)], None, id="two-lines"),
        pytest.param([((CALL,), 30), ((CALL, at(8)), 70)], None, id="its-own"),
        pytest.param([((CALL, at(8), at(3, "distance", "far")), 100)], 3, id="further-in"),
        pytest.param([((CALL, at(8)), 9)], None, id="too-few"),
        pytest.param([((CALL, CALL), 100)], None, id="the-line-itself"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_the_line_that_nearly_all_goes_into_is_the_innermost(ways, found):
    inner = inner_line(ways, SOURCES, ())
    assert (inner.line if inner is not None else None) == found


def test_of_a_function_that_others_call_too_the_call_is_the_line():
    ways = [((CALL, at(6), at(2, "counted")), 95), ((CALL, at(7), at(2, "counted")), 5)]
    assert inner_line(ways, SOURCES, ()).line == 6


def test_a_function_that_others_pass_through_is_not_gone_into():
    ways = [((CALL, at(8), at(3, "forward", "model")), 100)]
    train = CALL, at(3, "forward", "model")
    assert inner_line(ways, SOURCES, [train]).line == 8
    assert inner_line(ways, SOURCES, ()).line == 3
