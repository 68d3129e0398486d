from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.flame import DifferenceFrame, FlameDifference, RunDifference
from perfdoctor.model.measured import Phase
from perfdoctor.render.html.difference import KEYS, difference


def frame(before, after, sure=True, owner="user"):
    return DifferenceFrame("load", "train.py", owner, 0, 0.0, 1.0, before, after, sure)


def flame(*frames, in_seconds=True):
    return FlameDifference("Training process", 0.1, 0.05, (40, 60), in_seconds, frames)


FOUND = RunDifference(
    "earlier",
    {Phase.DATA_WAIT: 0.08, Phase.FORWARD: 0.02, Phase.OTHER: 0.0},
    {Phase.DATA_WAIT: 0.02, Phase.FORWARD: 0.03, Phase.OTHER: 0.0},
    (flame(frame(0.08, 0.02)),),
)


def test_both_steps_stand_on_one_scale_with_their_phases_and_differences():
    drawn = difference(FOUND)
    assert drawn.told == "A step took 100 ms and takes 50 ms: 2.0× as fast."
    assert [row[1:] for row in drawn.rows] == [
        ("data wait", "80 ms", "20 ms", "−60 ms"),
        ("forward", "20 ms", "30 ms", "+10 ms"),
    ]
    (_, before, first), (_, after, second) = drawn.bars
    assert (before, after) == ("100 ms", "50 ms")
    assert sum(part.width for part in first) == pytest.approx(100)
    assert [part.style for part in second] == ["data_wait", "forward", "nothing"]


def test_a_longer_step_is_said_to_be_longer():
    turned = replace(FOUND, before=FOUND.after, after=FOUND.before)
    assert difference(turned).told.endswith("2.0× as long.")


@pytest.mark.parametrize(
    ("before", "after", "style", "mark"),
    [
        (0.08, 0.02, "less3", "▼ load"),
        (0.02, 0.026, "more2", "▲ load"),
        (0.020, 0.019, "less1", "▼ load"),
        (0.0200, 0.0201, "same", "load"),
    ],
)
def test_a_frame_is_coloured_and_marked_by_its_share_of_the_longer_step(before, after, style, mark):
    (icicle,) = difference(replace(FOUND, flames=(flame(frame(before, after)),))).flames
    assert (icicle.frames[0].style, icicle.frames[0].label) == (style, mark)
    assert style in dict(KEYS)


def test_what_can_be_chance_is_grey_and_says_so():
    (icicle,) = difference(replace(FOUND, flames=(flame(frame(0.08, 0.02, sure=False)),))).flames
    assert icicle.frames[0].style == "same"
    assert (
        icicle.frames[0].name
        == "load (train.py): 80 ms → 20 ms a step, −60 ms, which can be chance; your code"
    )


def test_without_steps_shares_are_told():
    drawn = difference(RunDifference("earlier", {}, {}, (flame(frame(0.6, 0.1), in_seconds=False),)))
    assert (drawn.bars, drawn.rows) == ((), ())
    assert "no step" in drawn.told
    assert "60% → 10% of the samples, −50%" in drawn.flames[0].frames[0].name
