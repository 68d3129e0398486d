from __future__ import annotations

import pytest

from perfdoctor.facts.host.item_loops import ItemLoop, ItemLoopFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.items_one_by_one import items_one_by_one as tip
from tests.support.facts import gain, step

STEP = step(forward=50, backward=45, other=5)
FEEDS = (
    "45% of each step (45.0 ms) feeds items to modules one by one (Layer, Linear), "
    "and about 35% their counterparts in backward"
)
TURNS = "line 45 makes about 64 turns a step, none of which needs another: `for x in xs:`"


def items(share=0.45, kept=(0.0, 0.1, 0.3), waited=None, samples=60, turns=64):
    at = Location("train.py", 45, "forward", "for x in xs:")
    return ItemLoopFacts(
        (ItemLoop(at, turns, share, share, samples, ("Layer", "Linear"), Estimate(*kept)),), waited
    )


def test_names_the_loop_its_turns_and_its_modules():
    advice = tip(STEP, items())
    assert advice.because == (FEEDS, TURNS)
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.8 * 0.9), abs=0.01)


def test_what_the_products_take_stays():
    assert gain(tip(STEP, items(kept=(0.1, 0.5, 0.9)))).likely == pytest.approx(1 / (1 - 0.8 * 0.5), abs=0.01)
    assert tip(STEP, items(kept=(0.2, 0.51, 1.0))) is None


def test_few_turns_leave_more_of_them():
    assert gain(tip(STEP, items(kept=(0, 0, 0), turns=16))).high == pytest.approx(
        1 / (1 - 0.85 * (1 - 1 / 16)), abs=0.01
    )


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(items(0.079), id="just-under-the-threshold"),
        pytest.param(items(samples=4), id="seen-too-seldom"),
        pytest.param(items(waited=0.05), id="a-device-that-hardly-waits"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None


def test_where_a_device_waits_no_more_goes_than_it_waits():
    advice = tip(STEP, items(waited=0.5))
    assert advice.bottleneck is Bottleneck.HOST
    assert advice.because[2] == "the device waits for its host 50% of the time"
    assert gain(advice).high == pytest.approx(2.0)
