from __future__ import annotations

import pytest

from perfdoctor.facts.script.recomputed_constants import ConstantLine, RecomputedConstantFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.recomputed_constants import recomputed_constants as tip
from tests.support.facts import step

STEP = step(forward=5, backward=4, optimizer=1)
LINES = tuple(
    ConstantLine(Location("net.py", number, "normalise", text), share, ("sum", "rsqrt"))
    for number, text, share in ((12, "scale = a.sum(1).rsqrt()", 0.12), (13, None, 0.05))
)


def constants(likely, lines=LINES):
    return RecomputedConstantFacts(Estimate(likely / 2, likely, min(1.0, likely * 1.5)), lines, 4)


def test_says_what_it_takes_and_names_the_lines():
    advice = tip(STEP, constants(0.2))
    assert advice.because[0] == (
        "20% of each step (2.0 ms) computes what earlier steps computed already: "
        "same inputs, same results, in 4 sampled steps"
    )
    assert advice.because[1] == (
        "line 12 takes the most, 12% of the step (`sum`, `rsqrt`): `scale = a.sum(1).rsqrt()`"
    )
    assert [at.line for at in advice.at] == [12, 13]


def test_what_goes_is_what_the_sampled_steps_spent_and_at_best_a_part_of_what_follows():
    share = tip(STEP, constants(0.2)).change.step
    assert (share.low, share.likely) == pytest.approx((0.1, 0.2))
    assert share.high == pytest.approx(0.3 + 0.2 * 0.3 * 0.7)
    assert tip(STEP, constants(0.2)).takes == share.high


def test_no_more_than_the_step_goes():
    assert tip(STEP, constants(1.0)).change.step.high == 1.0


def test_a_line_without_its_text_is_still_named():
    assert "line 13 takes the most" in tip(STEP, constants(0.2, LINES[1:])).because[1]


def test_fires_at_the_threshold_and_is_silent_just_under_it_or_without_a_line():
    assert tip(STEP, constants(0.0501)) is not None
    assert tip(STEP, constants(0.0499)) is None
    assert tip(STEP, constants(0.2, ())) is None


def test_of_what_items_repeat_the_class_is_data_and_the_cure_no_modules():
    line = ConstantLine(Location("data.py", 4, "normalise", None), 0.2, ("view",), Bottleneck.DATA)
    advice = tip(STEP, constants(0.2, (line,)))
    assert advice.bottleneck is Bottleneck.DATA
    assert "the dataset or the transform" in advice.code
