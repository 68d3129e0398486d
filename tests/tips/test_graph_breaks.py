from __future__ import annotations

import pytest

from perfdoctor.facts.script.compiling import CompilingFacts, GraphBreak
from perfdoctor.model.measured import Location
from perfdoctor.tips.graph_breaks import graph_breaks as tip
from tests.support.facts import gain, step

STEP = step(forward=0.6, backward=0.3, other=0.1)  # one millisecond


def facts(places):
    lines = [Location("train.py", number, "forward", "print(x)") for number in range(1, places + 1)]
    return CompilingFacts(1, 9.0, (), tuple(GraphBreak("print", at) for at in lines), (), 10.0)


def test_names_the_places_where_a_short_step_breaks():
    advice = tip(STEP, facts(5))
    assert advice.because == (
        "a compiled graph breaks at 5 places, in steps of 1.0 ms",
        "line 1: print",
        "line 2: print",
        "line 3: print",
        "and 2 more places",
    )
    assert [at.line for at in advice.at] == [1, 2, 3]
    assert gain(advice).likely == pytest.approx(1 / 0.95)


def test_a_single_place_more_is_one():
    assert tip(STEP, facts(4)).because[-1] == "and 1 more place"


def test_fires_at_the_threshold_and_is_silent_just_under_it():
    assert tip(STEP, facts(2)) is not None
    assert tip(STEP, facts(1)) is None
    assert tip(step(forward=90, backward=10), facts(5)) is None


def test_silent_without_breaks():
    assert tip(STEP, facts(0)) is None
