from __future__ import annotations

import pytest

from perfdoctor.facts.host.repeated_reads import repeated_read_facts
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.repeated_reads import RepeatedReadEvent
from tests.support.facts import step
from tests.support.records import source_of

FILE = "/home/me/train.py"
STEP = step(forward=50, other=50)  # ms
CODE = """def read(path):
    return pd.read_csv(path)
def made():
    return read(path)
for epoch in range(9):
    table = made()
"""
SOURCES = Sources(source_of(train=CODE))
LINES = [
    {"file": FILE, "line": line, "function": function}
    for line, function in ((2, "read"), (4, "made"), (6, "<module>"))
]
NO_STACKS = Missing("no stacks")


def read(reads=10, again_s=5.0, file=1, **given):
    event = {"file": file, "lines": LINES, "reads": reads, "again_ns": round(again_s * 1e9), "pid": 1}
    return RepeatedReadEvent(**{**event, **given})


def facts(*events, costs=NO_STACKS):
    return repeated_read_facts(list(events), STEP, costs, SOURCES)


def test_the_last_event_of_a_file_tells_what_reading_it_again_takes():
    (line,) = facts(read(5, 2.0), read()).lines
    assert (line.at.line, line.at.text, line.caller.line) == (2, "return pd.read_csv(path)", 6)
    assert (line.files, line.reads) == (1, 10)
    assert line.share == pytest.approx(5.0 / STEP.wall_s)


def test_files_of_one_line_are_told_together_and_the_costliest_line_first():
    elsewhere = [{"file": FILE, "line": 6, "function": "<module>"}, LINES[1]]
    few, many = facts(read(1, 9.0, 3, lines=elsewhere), read(), read(20, 1.0, 2)).lines
    assert (few.at.line, few.caller, few.files) == (6, None, 1)
    assert (many.files, many.reads, many.share) == (2, 20, pytest.approx(6.0 / STEP.wall_s))


@pytest.mark.parametrize(("kind", "expected"), [("data", Bottleneck.DATA), (None, Bottleneck.HOST)])
def test_it_is_charged_as_the_verdict_charges_it(kind, expected):
    path = Frame("fit", FILE, 4, Owner.USER), Frame("read", FILE, 2, Owner.USER)
    cost = StackCost(Phase.OTHER, path, (), 20, 0.03, kind)
    (line,) = facts(read(), costs=StackCosts(100, (cost,), {}, frozenset())).lines
    assert line.bottleneck is expected


def test_without_such_files_there_is_nothing_to_tell():
    assert facts() is None
    assert facts(read(lines=[])) is None
