from __future__ import annotations

import pytest

from perfdoctor.facts.script.ignored_targets import IgnoredTargetFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.ignored_targets import ignored_targets as tip
from tests.support.facts import gain, step

STEP = step(forward=4, backward=6)
LINES = (Location("train.py", 4, "forward", "scores = self.head(hidden)"), Location("train.py", 5, "forward"))


def ignored(share=0.85, backward_ms=4.0, at=LINES):
    return IgnoredTargetFacts(share, backward_ms / 1e3, 4_000, at)


def test_names_the_line_of_the_scores_and_what_goes():
    advice = tip(STEP, ignored())
    assert advice.because == (
        "the loss ignores 85% of its targets",
        "scores of 4,000 classes are computed for all of them",
        "backward spends 4.00 ms a step on these scores",
    )
    assert advice.at == LINES
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.85 * 0.98 * 0.4 * 1.7))


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(ignored(share=0.05), id="few-are-ignored"),
        pytest.param(ignored(backward_ms=0.3), id="a-small-head"),
        pytest.param(ignored(at=()), id="a-loss-of-a-library"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None


def test_fires_just_above_the_threshold():
    assert tip(STEP, ignored(share=0.5, backward_ms=0.65)) is not None
