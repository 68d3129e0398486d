from __future__ import annotations

import pytest

from perfdoctor.facts.script.retained_graph import keeping_line, retained_graph_facts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from tests.support.records import MS, rows, source_of, update

TRAIN = "/home/me/train.py"
SCRIPT = """\
def fit(model):
    total = 0
    meter = Meter()
    for x in data:
        loss = model(x)
        total = total + loss
        meter.add(loss, len(x))
        history["loss"].append(loss)
        best = min(best, loss)
class Trainer:
    def step(self, x):
        self.sum += self.model(x)
        kept[x] = x
"""
SOURCES = Sources(source_of(train=SCRIPT))


@pytest.mark.parametrize(
    ("name", "line", "seen_at"),
    [
        ("total", 6, 5),
        ("meter.sum", 7, 5),
        ("history", 8, 5),
        ("best", 9, 5),
        ("self.sum", 12, 12),
        ("self.sum", 12, 5),
        ("kept", 13, 12),
        ("elsewhere", 5, 5),
    ],
)
def test_the_statement_that_adds_to_a_name_is_found(name, line, seen_at):
    found = keeping_line(SOURCES, Location(TRAIN, seen_at, "fit"), name)
    assert found.line == line


def facts(described, *graphs, growth=0):
    found = find(rows(described))
    events = [
        {
            "event": "retained",
            "graphs": count,
            "rows": count * 10,
            "name": "total",
            "at": {"file": TRAIN, "line": 5},
        }
        for count in graphs
    ]
    samples = [
        {
            "t_ns": (1000 + n * 100) * MS,
            "procs": [{"role": "main", "pid": 1, "private_bytes": 10**9 + growth * n}],
        }
        for n in range(11)
    ]
    records = RankRecords(0, None, None, tuple(events))
    return retained_graph_facts(records, found, MeasuredSpan.of(found), samples, SOURCES)


def test_the_most_graphs_alive_at_once_count():
    found = facts([update(10)] * 100, 4, 9, 7, growth=10**6)
    assert (found.graphs, found.steps, found.name, found.at.line) == (9, 90, "total", 6)
    assert found.bytes_per_step == pytest.approx(10**5)
    assert found.slower == 0


def test_steps_that_grow_all_along_are_slower():
    assert facts([update(10 + n / 20) for n in range(200)], 9).slower == pytest.approx(0.225, abs=0.01)


def test_steps_that_vary_without_growing_are_not():
    assert facts([update(10 + (n // 40 % 2) * 5) for n in range(200)], 9).slower == 0


def test_without_old_graphs_there_is_nothing():
    assert facts([update(10)] * 100) is None
