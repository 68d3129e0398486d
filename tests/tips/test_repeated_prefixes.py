from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.repeated_prefixes import RepeatedPrefixesFacts
from perfdoctor.model.change import NOTHING
from perfdoctor.model.measured import Location
from perfdoctor.tips.repeated_prefixes import repeated_prefixes as tip
from tests.support.facts import step

CALL, OFF = Location("train.py", 50), Location("train.py", 12)
STEP = step(forward=4, backward=4, validation=2)
PREFIXES = RepeatedPrefixesFacts(48, 97, 0.2, 0.25, True, False, (CALL,))


def test_says_how_long_the_rows_of_calls_are_and_what_they_take():
    advice = tip(STEP, PREFIXES)
    assert advice.because == (
        "48 calls of a model in a row, each on one place more than the last, up to 97",
        "they take 20% of the training time; on the new place alone they would take 5%",
    )
    assert advice.at == (CALL,)
    assert "cache" in advice.code


def test_what_calls_on_one_place_would_take_is_not_promised():
    change = tip(STEP, PREFIXES).change
    assert change.step == NOTHING
    assert change.pauses.low == pytest.approx(0.15 * 0.7)
    assert change.pauses.likely == pytest.approx(0.15 * 0.9)
    assert change.pauses.high == pytest.approx(0.15)


def test_rollouts_go_from_the_step():
    change = tip(STEP, replace(PREFIXES, pauses=False)).change
    assert change.pauses == NOTHING
    assert change.step.high == pytest.approx(0.15)


def test_what_is_told_by_shapes_alone_says_so_and_promises_less():
    compared, by_shapes = tip(STEP, PREFIXES), tip(STEP, replace(PREFIXES, by_shapes=True))
    assert by_shapes.because[:2] == compared.because
    assert "by shapes: on a device inputs are not compared" in by_shapes.because[2]
    assert by_shapes.change.pauses.low == 0.0
    assert by_shapes.change.pauses.likely < compared.change.pauses.likely
    assert by_shapes.change.pauses.high == compared.change.pauses.high


def test_lines_that_switch_the_cache_off_come_first():
    advice = tip(STEP, replace(PREFIXES, generates=True, off=(OFF,)))
    assert advice.at == (OFF, CALL)
    assert "use_cache = True" in advice.code


@pytest.mark.parametrize("facts", [{"share": 0.05}, {"left": 0.9}])
def test_is_silent_where_a_cache_would_save_little(facts):
    assert tip(STEP, replace(PREFIXES, **facts)) is None
