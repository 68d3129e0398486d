from __future__ import annotations

import pytest

from perfdoctor.facts.script.ignored_targets import IgnoredTargetFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.ignored_targets import SLOW_ELEMENT_S, SLOW_FLOPS_PER_S, ignored_targets
from tests.support.facts import gain, run, step

STEP = step(forward=4, backward=6)
LINES = (Location("train.py", 4, "forward", "scores = self.head(hidden)"), Location("train.py", 5, "forward"))


def ignored(share=0.85, backward_ms=4.0, at=LINES, **given):
    return IgnoredTargetFacts(share, backward_ms / 1e3, given.pop("classes", 4_000), at, **given)


def tip(of_step, found, device="cpu"):
    return ignored_targets(run(device=device), of_step, found)


def test_names_the_line_of_the_scores_and_what_goes():
    advice = tip(STEP, ignored())
    assert advice.because == (
        "the loss ignores 85% of its targets",
        "scores of 4,000 classes are computed for all of them",
        "backward spends 4.00 ms a step on these scores",
    )
    assert advice.at == LINES
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.85 * 0.98 * 0.4 * 1.7 + 0.1e-3 / STEP.mean_s))


@pytest.mark.parametrize(("index", "value"), [(-1, "-1"), (0, "0"), (-100, "-100"), (None, "ignore_index")])
def test_the_mask_asks_for_what_the_loss_ignores(index, value):
    assert tip(STEP, ignored(ignore_index=index)).code.startswith(f"counts = labels != {value}  #")


def test_a_small_head_whose_operations_wait_is_no_work_that_goes():
    slow = step(forward=300, backward=430)
    small = {"share": 0.5, "backward_ms": 87.6, "classes": 27, "width": 64}
    assert tip(slow, ignored(**small, rows=512.0)) is None
    assert tip(slow, ignored(**small, rows=64_000.0)) is not None
    assert tip(slow, ignored(**small)) is not None  # of a size that nobody told


def test_no_more_is_promised_than_a_slow_machine_needs():
    most_s = 4 * 256 * 64 * 1_000 / SLOW_FLOPS_PER_S + 256 * 1_064 * SLOW_ELEMENT_S
    slow = step(forward=30, backward=30)
    found = ignored(backward_ms=20.0, classes=1_000, width=64, rows=256.0)
    assert gain(tip(slow, found)).likely == pytest.approx(
        1 / (1 - (0.85 * 0.98 * 1.7 * most_s - 0.1e-3) / 60e-3)
    )
    assert f"backward spends at most {most_s * 1e3:.2f} ms" in tip(slow, found).because[2]
    assert tip(slow, found, device="cuda") is None


def test_calling_what_picks_stays_for_each_loss():
    assert gain(tip(STEP, ignored(losses=8.0))).likely < gain(tip(STEP, ignored())).likely


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
    assert tip(STEP, ignored(share=0.5, backward_ms=0.75)) is not None
