from __future__ import annotations

import pytest

from perfdoctor.facts.host.memory_growth import MemoryGrowth
from perfdoctor.facts.script.retained_graph import keeping_line, retained_graph_facts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.host_facts import growing
from tests.support.records import rows, source_of, update

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
UNSAMPLED = Missing("memory was not sampled")
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


def facts(described, *graphs, memory=UNSAMPLED, growth=None):
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
    records = RankRecords(0, None, None, tuple(events))
    return retained_graph_facts(records, found, memory, growth, SOURCES)


def test_the_most_graphs_alive_at_once_count():
    found = facts([update(10)] * 100, 4, 9, 7, memory=MemoryGrowth(1e5, None))
    assert (found.graphs, found.steps, found.name, found.at.line) == (9, 90, "total", 6)
    assert (found.bytes_per_step, found.device_bytes_per_step) == (1e5, None)
    assert found.slower == 0


def test_steps_that_grow_are_slower():
    assert facts([update(10)] * 100, 9, growth=growing(waiting=None)).slower == 0.2
    assert facts([update(10)] * 100, 9, growth=growing(waiting=0.49)).slower == 0.2


def test_steps_that_only_wait_longer_for_a_core_are_not():
    assert facts([update(10)] * 100, 9, growth=growing(waiting=0.5)).slower == 0


def test_memory_that_was_not_sampled_leaves_its_growth_open():
    assert facts([update(10)] * 100, 9).bytes_per_step is None


def test_without_old_graphs_there_is_nothing():
    assert facts([update(10)] * 100) is None
