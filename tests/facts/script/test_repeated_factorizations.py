from __future__ import annotations

import pytest

from perfdoctor.facts.script.repeated_factorizations import repeated_factorization_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import source_of

SOURCES = Sources(source_of(train="moved = solve(matrix, loads)\nother = inv(matrices)"))
STEP = step(forward=6, backward=4)


def look(number, seconds=0.002, repeated=0.9):
    return {
        "event": "repeated_factorizations_look",
        "look": number,
        "seconds": seconds,
        "backward_s": 0.001,
        "step_s": 0.01,
        "repeated": repeated,
    }


def line(look, number=1, times=11, **fields):
    return {
        "event": "repeated_factorizations_line",
        "look": look,
        "seconds": 0.002,
        "backward_s": 0.001,
        "calls": 2,
        "names": ["linalg_solve"],
        "matrices": 5,
        "width": 512,
        "times": times,
        "at": {"file": "/home/me/train.py", "line": number},
        **fields,
    }


def facts(*events):
    return repeated_factorization_facts(RankRecords(0, None, None, events), STEP, SOURCES)


def test_shares_are_of_the_looked_at_steps_and_lines_come_costliest_first():
    found = facts(look(1, 0.001), look(2, 0.004), look(3, 0.003, 0.8), *map(line, (1, 2, 3)), line(3, 2))
    assert (found.share.low, found.share.likely, found.share.high) == pytest.approx((0.2, 0.4, 0.5))
    assert found.repeated == pytest.approx(0.9)
    first, second = found.lines
    assert (first.at.line, first.at.text, first.function) == (
        1,
        "moved = solve(matrix, loads)",
        "linalg_solve",
    )
    assert (first.matrices, first.width, first.times) == (5, 512, 11)
    assert second.at.line == 2


def test_one_look_is_too_few_and_on_an_accelerator_it_could_not_be_measured():
    assert facts(look(1), line(1)) is None
    assert isinstance(facts({"event": "device", "backend": "cuda"}), Missing)


def test_calls_that_factorise_again_count_where_each_matrix_is_one():
    (found,) = facts(look(1), look(2), line(1, times=1, again=6), line(2, times=1, again=6)).lines
    assert (found.again, found.times) == (6, 1)
    assert facts(look(1), look(2), line(1, times=1), line(2, times=1)).lines == ()


def test_damaged_lines_are_left_out():
    assert facts(look(1), look(2), line(1, times=0), line(2, times=0)).lines == ()
