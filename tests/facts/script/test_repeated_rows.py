from __future__ import annotations

import pytest

from perfdoctor.facts.script.repeated_rows import repeated_row_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import source_of

SOURCES = Sources(
    source_of(train="rows = x.repeat_interleave(5, 0)\nencoded = encoder(rows)\nother = encoder(y)")
)
STEP = step(forward=6, backward=4)


def look(number, seconds=0.002, repeated=0.8):
    return {
        "event": "repeated_rows_look",
        "look": number,
        "seconds": seconds,
        "backward_s": 0.001,
        "step_s": 0.01,
        "repeated": repeated,
    }


def line(look, number=2, **fields):
    return {
        "event": "repeated_rows",
        "look": look,
        "module": "Encoder",
        "calls": 1,
        "seconds": 0.002,
        "backward_s": 0.001,
        "rows": 40,
        "distinct": 8,
        "times": 5,
        "together": True,
        "operations": 30,
        "weight_bytes": 1000,
        "by_chance": False,
        "normalised": False,
        "at": {"file": "/home/me/train.py", "line": number},
        **fields,
    }


def facts(*events):
    return repeated_row_facts(RankRecords(0, None, None, events), STEP, SOURCES)


def test_shares_are_of_the_looked_at_steps_and_lines_come_costliest_first():
    found = facts(
        look(2, 0.001),
        look(3, 0.004),
        look(4, 0.003, 0.7),
        *map(line, (2, 3, 4)),
        line(3, 3),
        line(4, 3, backward_s=0),
    )
    assert (found.share.low, found.share.likely, found.share.high) == pytest.approx((0.2, 0.4, 0.5))
    assert (found.repeated, found.samples) == (0.8, 3)
    first, second = found.lines
    assert (first.at.text, first.repeated_at.text) == (
        "encoded = encoder(rows)",
        "rows = x.repeat_interleave(5, 0)",
    )
    assert (first.module, first.rows, first.distinct, first.times) == ("Encoder", 40, 8, 5)
    assert (first.operations, first.weight_bytes) == (30, 1000)
    assert (second.at.line, second.repeated_at) == (3, None)


def test_what_most_steps_do_not_show_takes_nothing():
    found = facts(look(2, 0.0, 0.0), look(3, 0.0, 0.0), look(4), line(4))
    assert found.lines == ()


def test_one_look_is_too_few_and_on_an_accelerator_it_could_not_be_measured():
    assert facts(look(2), line(2)) is None
    missing = facts({"event": "device", "backend": "cuda"})
    assert isinstance(missing, Missing)
    assert "rows" in missing.reason


def test_damaged_lines_are_left_out():
    assert facts(look(2), look(3), line(2, distinct=40), line(3, distinct=0)).lines == ()
