from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.broadcast_distances import BroadcastDistanceFacts, BroadcastDistanceLine
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.broadcast_distances import broadcast_distances as tip
from tests.support.facts import step

STEP = step(forward=4, backward=6)  # ms
LINE = BroadcastDistanceLine(
    Location("train.py", 12, "forward", "sim = F.cosine_similarity(x[:, None], y[None])"),
    0.5,
    32768,
    128,
    "cosine",
)
FOUND = BroadcastDistanceFacts(Estimate(0.4, 0.5, 0.6), (LINE,), 4)


def test_says_what_is_made_and_what_to_write():
    advice = tip(STEP, FOUND)
    assert advice.because == (
        "50% of each step (5.0 ms), backward included, takes similarities of all pairs, in 4 sampled steps",
        "line 12 takes the most, 50% of the step: `sim = F.cosine_similarity(x[:, None], y[None])`",
        "what it makes there has 32,768 pairs times 128 numbers",
    )
    assert advice.at == (LINE.at,)
    share = advice.change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.3, 0.46, 0.594))


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("product", "x @ y.T"),
        ("distance", "torch.cdist"),
        ("absolute", "torch.cdist(x, y, p=1)"),
        ("new", "torch.cdist"),
    ],
)
def test_each_kind_has_its_own_way(kind, code):
    assert tip(STEP, replace(FOUND, lines=(replace(LINE, kind=kind),))).code.startswith(code)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(replace(FOUND, share=Estimate(0.01, 0.05, 0.07)), id="next-to-nothing"),
        pytest.param(replace(FOUND, lines=()), id="no-line"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None
