from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.script.accumulation import AccumulationFacts, accumulation_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader, step
from tests.support.records import source_of

ROOT = {"event": "root", "at": {"file": "/home/me/train.py", "line": 1}}
SCRIPT = """
arguments = TrainingArguments(
    per_device_train_batch_size=2,
    gradient_accumulation_steps=16,
    per_device_eval_batch_size=64,
)
trainer.train()
"""
LINE = Location("train.py", 9)


def facts(batches=16.0, backwards=16.0, script=SCRIPT, size=2):
    of_loader = replace(loader(0, batch=1), batch_size=size, batches_per_step=batches, at=LINE)
    of_step = replace(step(forward=1), backwards_per_step=backwards)
    return accumulation_facts(
        RankRecords(0, None, None, (ROOT,)), of_step, of_loader, Sources(source_of(train=script))
    )


def test_size_and_number_are_named_where_they_are_set():
    found = facts()
    assert (found.batches, found.size) == (16, 2)
    assert [at.line for at in found.at] == [3, 4]


def test_else_the_line_that_builds_the_loader_is():
    assert facts(script="for x, y in loader: pass") == AccumulationFacts(16, 2, (LINE,))


def test_a_single_batch_or_several_losses_of_one_accumulate_nothing():
    assert facts(batches=1.0, backwards=1.0) is None
    assert facts(batches=1.0, backwards=2.0) is None
    assert facts(batches=2.0, backwards=1.0) is None
    assert facts(size=None) is None
