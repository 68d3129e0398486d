from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.repeated_prefixes import RepeatedPrefixesFacts
from perfdoctor.facts.script.validation import validation_facts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.summary import step_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.interval import Interval
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import cpu, loader, model
from tests.support.load_facts import held_back
from tests.support.records import rows, source_of, update

TRAIN = "/home/me/train.py"
SCRIPT = """\
def predict(x):
    return model(x)
def validate():
    for x in held:
        predict(x)
def main():
    for step in range(9):
        train()
        validate()
main()
"""
LINES = [
    {"file": TRAIN, "line": line, "function": function}
    for line, function in ((2, "predict"), (5, "validate"), (9, "main"), (10, "<module>"))
]


def facts(lines, every=10, of_loader=None, other=None, cores=8, prefixes=None, script=SCRIPT):
    described = [update(20, validation=10) if n % every == 0 else update(10) for n in range(1, 101)]
    steps = find(rows(described))
    events = ({"event": "eval", "calls": 10, "lines": lines},)
    source = Sources(source_of(train=script))
    records = RankRecords(0, None, None, events)
    step, of_cpu = step_facts(steps, None, None), cpu(cores=cores)
    own = model(step, of_loader, of_cpu) if of_loader is not None else Missing("there is no loader")
    return validation_facts(records, steps, step, of_loader, source, other, own, of_cpu, prefixes)


def test_stretches_between_updates_are_counted():
    found = facts(LINES, of_loader=loader(other_wait_s=0.0005))
    assert (found.count, found.steps_between) == (10, 10)
    assert found.seconds_per_step == pytest.approx(0.001)
    assert found.wait_per_step_s == 0.0005


def test_what_a_cache_would_spare_of_the_passes_is_told_apart():
    generated = RepeatedPrefixesFacts(48, 97, 0.06, 0.25, True, False, ())
    spared = 0.06 * 0.75 * 0.011  # of a mean step of 11 ms
    assert facts(LINES, prefixes=generated).spared_per_step_s == pytest.approx(spared)
    assert facts(LINES, prefixes=replace(generated, share=0.9)).spared_per_step_s == pytest.approx(0.001)
    assert facts(LINES, prefixes=replace(generated, pauses=False)).spared_per_step_s == 0.0


def left_s(found):
    """Waits that no setting of workers takes away."""
    return found.wait_per_step_s - found.spared_wait_per_step_s


def test_waits_that_more_workers_take_away_are_told_apart():
    feeding = loader(workers=2, other_wait_s=0.0005)

    def waits_s(workers, cores=8):
        other = held_back(workers, wait=0.4)
        return left_s(facts(LINES, of_loader=feeding, other=other, cores=cores))

    assert waits_s(0) == waits_s(2) == pytest.approx(1e-4)
    assert waits_s(8) == waits_s(2, cores=2) == 0.0005


def test_what_restarts_workers_is_told_apart():
    waits = facts(LINES, of_loader=loader(workers=2, other_wait_s=0.004, others_restart_s=0.003))
    assert left_s(waits) == pytest.approx(0.001)
    feeding = loader(workers=2, other_wait_s=0.0045, others_restart_s=0.004)
    more = facts(LINES, of_loader=feeding, other=held_back(0, wait=0.4))
    assert left_s(more) == pytest.approx(1e-4)


def test_waits_that_more_workers_leave_are_its_own():
    feeding = loader(workers=1, other_wait_s=0.004)
    slow = held_back(0, wait=4)  # of 25 ms for a batch, one worker on one core takes away next to nothing
    found = facts(LINES, of_loader=feeding, other=slow, cores=1)
    assert left_s(found) == 0.004
    some = facts(LINES, of_loader=feeding, other=slow, cores=2)  # one that prepares all of it in 10 ms
    assert 0.0005 < left_s(some) < 0.003


def test_the_loop_that_calls_again_and_again_is_named_and_the_call_of_the_model():
    found = facts(LINES)
    assert (found.passes.line, found.at.line, found.at.text) == (2, 5, "predict(x)")
    found = facts(LINES[1:])
    assert (found.passes.line, found.at.line, found.at.text) == (5, 9, "validate()")


def test_a_line_that_trains_as_well_is_not_named_but_what_validates_alone_below_it():
    script = (
        "def train_iter():\n    loss(model(x)).backward()\n    print(test(seen))\n    print(test(held))\n"
        "    print(step)\ndef test(x):\n    return model(x)\nfor step in range(9):\n    train_iter()\n"
    )
    places = ((7, "test"), (3, "train_iter"), (9, "<module>"))
    lines = [{"file": TRAIN, "line": line, "function": function} for line, function in places]
    found = facts(lines, every=1, script=script)
    assert (found.at.line, [at.line for at in found.likewise], found.passes.line) == (3, [4], 7)
    assert found.interval.is_in_caller


def test_a_validation_in_the_loop_itself_is_named_by_its_own_line():
    assert facts(LINES[2:3]).at.line == 9
    assert facts([]).at is None


def test_without_validation_there_is_nothing():
    assert facts(LINES, every=1000) is None


def test_the_loop_that_repeats_it_is_told_by_its_turns():
    assert facts(LINES[1:]).interval == Interval("step", of_updates=False)
    assert facts(LINES[1:], every=1).interval == Interval("step")
