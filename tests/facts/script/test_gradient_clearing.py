from __future__ import annotations

import pytest

from perfdoctor.facts.script.gradient_clearing import gradient_clearing_facts, gradient_zeroing_facts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.support.records import MS, rows, source_of, update

TRAIN = "/home/me/train.py"
WINDOW = MeasuredSpan.of(find(rows([update(10)] * 100)))
SOURCES = Sources(source_of(train="loss.backward()\nopt.step()"))
BEHIND = Sources(source_of(train="loss.backward()\nopt.step()\nfor p in ps: p.grad.data.zero_()"))


def of(*events):
    return RankRecords(0, None, None, events)


def clearing(optimizer, kept, cleared, by_value=True):
    lines = [{"file": TRAIN, "line": number} for number in (1, 2)]
    return {
        "event": "clearing", "optimizer": optimizer, "kept": kept, "cleared": cleared, "by_value": by_value,
        "lines": lines,
    }  # fmt: skip


def test_the_optimizer_that_was_cleared_least_is_the_one():
    found = gradient_clearing_facts(of(clearing(1, 0, 9), clearing(2, 5, 0), clearing(2, 20, 0)), SOURCES)
    assert (found.kept, found.cleared) == (20, 0)
    assert (found.backward.text, found.update.text) == ("loss.backward()", "opt.step()")
    assert not found.doubtful


def test_where_values_could_not_be_looked_at_a_way_around_raises_doubt():
    assert gradient_clearing_facts(of(clearing(1, 20, 0, by_value=False)), BEHIND).doubtful
    assert not gradient_clearing_facts(of(clearing(1, 20, 0, by_value=False)), SOURCES).doubtful
    assert not gradient_clearing_facts(of(clearing(1, 20, 0)), BEHIND).doubtful


def test_zeroing_is_spread_over_the_steps():
    entry = {
        "event": "zeroing",
        "t_ns": 1500 * MS,
        "calls": 100,
        "seconds": 0.05,
        "at": {"file": TRAIN, "line": 2},
    }
    found = gradient_zeroing_facts(of(entry), WINDOW, SOURCES)
    assert (found.calls_per_step, found.seconds_per_step) == pytest.approx((2, 0.001))
    assert found.at.text == "opt.step()"


def test_without_records_there_is_nothing():
    assert gradient_clearing_facts(of(), SOURCES) is None
    assert gradient_zeroing_facts(of(), WINDOW, SOURCES) is None
