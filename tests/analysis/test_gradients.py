from __future__ import annotations

import pytest

from perfdoctor.analysis.gradients import clearing_facts, zeroing_facts
from perfdoctor.analysis.records import Window
from perfdoctor.analysis.source import Sources
from perfdoctor.analysis.steps import find
from perfdoctor.recorded import RankRecords
from tests.records import MS, rows, source_of, update

TRAIN = "/home/me/train.py"
WINDOW = Window.of(find(rows([update(10)] * 100)))
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
    found = clearing_facts(of(clearing(1, 0, 9), clearing(2, 5, 0), clearing(2, 20, 0)), SOURCES)
    assert (found.kept, found.cleared) == (20, 0)
    assert (found.backward.text, found.update.text) == ("loss.backward()", "opt.step()")
    assert not found.doubtful


def test_where_values_could_not_be_looked_at_a_way_around_raises_doubt():
    assert clearing_facts(of(clearing(1, 20, 0, by_value=False)), BEHIND).doubtful
    assert not clearing_facts(of(clearing(1, 20, 0, by_value=False)), SOURCES).doubtful
    assert not clearing_facts(of(clearing(1, 20, 0)), BEHIND).doubtful


def test_zeroing_is_spread_over_the_steps():
    entry = {
        "event": "zeroing",
        "t_ns": 1500 * MS,
        "calls": 100,
        "seconds": 0.05,
        "at": {"file": TRAIN, "line": 2},
    }
    found = zeroing_facts(of(entry), WINDOW, SOURCES)
    assert (found.calls_per_step, found.seconds_per_step) == pytest.approx((2, 0.001))
    assert found.at.text == "opt.step()"


def test_without_records_there_is_nothing():
    assert clearing_facts(of(), SOURCES) is None
    assert zeroing_facts(of(), WINDOW, SOURCES) is None
