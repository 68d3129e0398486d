from __future__ import annotations

import pytest

from perfdoctor.facts.script.startup import startup_facts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.summary import timed_step
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.wire.events.startup import StartUpEvent
from tests.support.records import MS, records, rows, source_of, update

TRAIN = "/home/me/train.py"
SOURCES = Sources(source_of(train="texts = read()\ntokens = prepare(texts)\nmodel = Net()"))


def line(number, samples, kind="script"):
    return {"file": TRAIN, "line": number, "function": "main", "kind": kind, "samples": samples}


def facts(*lines, delay_s=0.0, samples=100, first=None):
    """A process that began at 0.5 s, had torch at 3 s and began its first step at 13 s."""
    described = [first or update(10, forward=10), *[update(10, forward=10)] * 199]
    read = records(steps=rows(described, begin_ms=13_000), run={"end_ns": 15_000 * MS})
    event = StartUpEvent(
        begin_ns=3_000 * MS, end_ns=13_000 * MS, samples=samples, delay_s=delay_s, lines=list(lines)
    )
    rank, steps = read.ranks[0], find(read.ranks[0].steps)
    return startup_facts(read, rank, steps, timed_step(read, rank, steps), [event], SOURCES)


def test_the_start_is_divided():
    found = facts(line(2, 80), line(3, 15, "model"))
    assert found.seconds == pytest.approx(12.5)
    assert found.share == pytest.approx(12.5 / 14.5)
    assert found.torch_s == pytest.approx(2.5)
    assert found.sampled == pytest.approx({"script": 8.0, "model": 1.5})
    assert [(each.at.text, each.seconds) for each in found.lines] == [
        ("tokens = prepare(texts)", pytest.approx(8.0)),
        ("model = Net()", pytest.approx(1.5)),
    ]


def test_time_without_a_core_counts_for_no_line():
    found = facts(line(2, 80), delay_s=5.0)
    assert (found.lines[0].seconds, found.waiting_s) == pytest.approx((4.0, 5.0))


@pytest.mark.shows("compile")
def test_what_the_first_step_takes_beyond_the_usual_belongs_to_the_start():
    found = facts(line(2, 80), first=update(3_000, data_wait=1_000, forward=2_000))
    assert found.seconds == pytest.approx(12.5 + 2.99)
    assert found.first_batch_s == pytest.approx(1.0, abs=0.02)
    assert found.first_compute_s == pytest.approx(2.0, abs=0.03)


def test_data_that_is_loaded_once_for_all_steps_belongs_to_the_start():
    found = facts(line(2, 80), first=update(1_010, data_wait=1_000, forward=10, batches=1))
    assert (found.seconds, found.first_batch_s) == (pytest.approx(13.5), pytest.approx(1.0))


def test_broken_lines_are_left_out():
    found = facts("no line", {}, line(2, None), line(2, 10, None), line(3, 10))
    assert [each.at.line for each in found.lines] == [3]


def test_of_a_short_start_and_of_one_that_was_not_sampled_there_is_nothing():
    assert facts(line(2, 4), samples=4) is None
    read = records(steps=rows([update(10)] * 20))
    rank, steps = read.ranks[0], find(read.ranks[0].steps)
    assert startup_facts(read, rank, steps, timed_step(read, rank, steps), [], SOURCES) is None
