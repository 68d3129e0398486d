from __future__ import annotations

import pytest

from perfdoctor.facts.script.repeated_rows import RepeatedRowFacts, RepeatedRowsLine
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.repeated_rows import repeated_rows as tip
from tests.support.facts import step

STEP = step(forward=50, backward=40, optimizer=10)


def line(number=36, share=0.5, distinct=8, times=5, operations=100, weight_bytes=10_000_000, **others):
    told = {"together": True, "by_chance": False, "normalised": False, "repeated_at": None, **others}
    at = Location("train.py", number, "forward", "person = self.profiles(rows)")
    return RepeatedRowsLine(
        at=at,
        module="Reader",
        share=share,
        rows=40,
        distinct=distinct,
        times=times,
        operations=operations,
        weight_bytes=weight_bytes,
        **told,
    )


LINES = (line(),)


def repeated(likely=0.5, rows=0.8, lines=LINES):
    return RepeatedRowFacts(Estimate(likely / 2, likely, likely * 1.2), rows, lines, 4)


def test_says_what_the_rows_cost_and_where_they_are_repeated():
    place = Location("train.py", 35, "forward", "rows = profiles.repeat_interleave(choices, 0)")
    advice = tip(STEP, repeated(lines=(line(repeated_at=place),)))
    assert advice.because == (
        "50% of each step (50.0 ms), backward included, computes rows of which 80% were there before",
        "line 36 gives Reader 40 rows, 8 of them different, in 4 sampled steps: `person = self.profiles(rows)`",
        "they are repeated on line 35: `rows = profiles.repeat_interleave(choices, 0)`",
    )
    assert [at.line for at in advice.at] == [36, 35]
    assert advice.same_result


def test_what_a_call_costs_with_any_number_of_rows_stays():
    share = tip(STEP, repeated()).change.step
    # of 100 ms: operations take 3, 1 and 0.3 of them, passes over the weights 10, 3 and 0.75
    expected = (0.8 * 0.8 * (0.25 - 0.13), 0.8 * (0.5 - 0.04), 0.8 * (0.6 - 0.0105))
    assert (share.low, share.likely, share.high) == pytest.approx(expected)
    assert tip(STEP, repeated(lines=(line(operations=50_000),))) is None


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({}, "repeat_interleave(5, 0)"),
        ({"together": False}, "repeat(5, 1)"),
        ({"times": 0}, "torch.unique"),
        ({"distinct": 1, "times": 40}, "expand(rows, -1)"),
    ],
)
def test_the_code_fits_the_pattern(told, code):
    assert code in tip(STEP, repeated(lines=(line(**told),))).code


def test_what_differs_afterwards_is_said():
    dropped = tip(STEP, repeated(lines=(line(by_chance=True),)))
    assert "dropout draws other numbers for each copy" in dropped.because[-1]
    normalised = tip(STEP, repeated(lines=(line(normalised=True),)))
    assert "running variance" in normalised.because[-1]
    assert not dropped.same_result
    assert not normalised.same_result


def test_fires_at_the_threshold_and_is_silent_just_under_it_or_without_a_line():
    free = (line(operations=0, weight_bytes=0),)
    assert tip(STEP, repeated(0.101, 0.5, free)) is not None
    assert tip(STEP, repeated(0.099, 0.5, free)) is None
    assert tip(STEP, repeated(lines=())) is None
