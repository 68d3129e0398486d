from __future__ import annotations

import pytest

from perfdoctor.facts.host.gc_pauses import gc_pause_facts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.support.records import MS, rows, source_of, update

WINDOW = MeasuredSpan.of(find(rows([update(10)] * 100)))
SOURCES = Sources(source_of(train="for i in range(9):\n    gc.collect()\n    work(i)"))


def facts(line=2, below=0.9, **given):
    entry = {
        "event": "pauses", "t_ns": 1800 * MS, "count": 40, "seconds": 1.2, "full": 8, "full_seconds": 1.0,
        "longest_s": 0.3, "at_seconds": below, "at": {"file": "/home/me/train.py", "line": line}, **given,
    }  # fmt: skip
    return gc_pause_facts(RankRecords(0, None, None, (entry,)), WINDOW, SOURCES)


def test_pauses_are_spread_over_the_steps_they_fell_into():
    found = facts()
    assert (found.per_step, found.full_per_step) == pytest.approx((0.5, 0.1))
    assert (found.seconds_per_step, found.full_seconds_per_step) == pytest.approx((0.015, 0.0125))
    assert (found.longest_s, found.full) == (0.3, 8)


def test_a_line_is_named_only_if_it_asks_for_most_of_them():
    assert facts().at.text == "gc.collect()"
    assert facts(line=3).at is None
    assert facts(below=0.4).at is None
    assert facts(at=None).at is None


def test_without_pauses_there_is_nothing():
    assert facts(count=0) is None
    assert gc_pause_facts(RankRecords(0, None, None, ()), WINDOW, SOURCES) is None
