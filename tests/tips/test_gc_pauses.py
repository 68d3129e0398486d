from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.tips.gc_pauses import gc_pauses as tip
from tests.support.facts import gain, step
from tests.support.host_facts import pauses

STEP = step(forward=6, backward=4)
ASKING = Location("train.py", 31, "main", "gc.collect()")


def test_says_how_often_and_how_long_everything_is_collected():
    advice = tip(STEP, pauses(young=0.1, full=2.0, every=50))
    assert advice is not None
    assert advice.because == (
        "garbage collection takes 21.0% of the step; the longest pause was 100.0 ms",
        "one full collection every 50.0 steps, 100.0 ms each",
    )
    assert advice.at == ()
    assert advice.tweak == "--gc-freeze"
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.18))
    assert gain(advice).high == pytest.approx(1 / (1 - 0.21))


def test_a_single_full_collection_has_no_interval():
    advice = tip(STEP, replace(pauses(full=2.0, every=50), full=1))
    assert advice.because[1] == "one full collection in all of the steps, 100.0 ms"


def test_names_the_line_that_asks_for_them_and_takes_it_out():
    advice = tip(STEP, pauses(full=2.0, every=1, at=ASKING))
    assert advice is not None
    assert advice.at == (ASKING,)
    assert "line 31 calls gc.collect()" in advice.because
    assert gain(advice).low == pytest.approx(1 / (1 - 0.1))
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.2))
    assert "gc.freeze" not in (advice.code or "")


def test_pauses_of_young_objects_alone_are_no_sure_gain():
    advice = tip(STEP, pauses(young=1.0))
    assert advice is not None
    assert "young" in advice.because[1]
    assert advice.takes == pytest.approx(0.1)
    assert gain(advice).likely == pytest.approx(1.0)


def test_fires_just_above_the_threshold_and_is_silent_just_under_it():
    assert tip(STEP, pauses(full=0.31)) is not None
    assert tip(STEP, pauses(full=0.29)) is None
