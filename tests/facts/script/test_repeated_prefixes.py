from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.script.repeated_prefixes import repeated_prefixes_facts
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.wire.events.training import RepeatedPrefixesEvent
from tests.support.facts import step
from tests.support.records import source_of

SOURCE = """def main():
    model.config.use_cache = False
    model.generation_config.update(use_cache=False)
    model.other.use_cache = True
    trainer.train()
main()
"""
LINES = [
    {"file": "/home/me/train.py", "line": line, "function": name}
    for line, name in ((5, "main"), (6, "<module>"))
]


def facts(generates=True, seconds=0.4, found=None, by_shapes=0):
    total = RepeatedPrefixesEvent(
        runs=4,
        calls=80,
        seconds=seconds,
        left_s=seconds / 4,
        longest=24,
        generates=generates,
        lines=LINES,
        by_shapes=by_shapes,
    )
    return repeated_prefixes_facts(
        [total] if found is None else found,
        MeasuredSpan(0, 10**9, 100, np.array([10**9])),
        step(count=100, forward=4, backward=4, validation=2),  # ms
        Sources(source_of(train=SOURCE)),
    )


def test_shares_of_the_time_from_the_first_step_to_the_last():
    found = facts(seconds=0.1)
    assert (found.calls_per_run, found.longest, found.pauses) == (20, 24, True)
    assert (found.share, found.left) == (pytest.approx(0.1), pytest.approx(0.25))


@pytest.mark.parametrize(("by_shapes", "most"), [(0, False), (2, False), (3, True), (4, True)])
def test_whether_most_rows_of_calls_were_told_by_shapes(by_shapes, most):
    assert facts(by_shapes=by_shapes).by_shapes is most


def test_no_more_than_validation_takes():
    assert facts(seconds=0.9).share == pytest.approx(0.2)


def test_lines_that_call_and_lines_that_switch_the_cache_off():
    found = facts()
    assert [at.line for at in found.at] == [5, 6]
    assert sorted(at.line for at in found.off) == [2, 3]


def test_a_loop_of_ones_own_has_no_cache_to_switch_off():
    assert facts(generates=False).off == ()


def test_no_such_call_no_fact():
    assert facts(found=[]) is None


def test_calls_of_a_rollout_are_no_part_of_a_short_validation():
    total = RepeatedPrefixesEvent(
        runs=4, calls=80, seconds=0.5, left_s=0.1, longest=24, generates=False, lines=LINES
    )
    found = repeated_prefixes_facts(
        [total],
        MeasuredSpan(0, 10**9, 100, np.array([10**9])),
        step(count=100, forward=7, backward=2.8, validation=0.2),
        Sources(source_of(train=SOURCE)),
    )
    assert (found.pauses, found.share) == (False, pytest.approx(0.5))
