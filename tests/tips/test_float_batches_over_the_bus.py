from __future__ import annotations

import pytest

from perfdoctor.model.batch import BatchFacts, Stage, StageCost
from perfdoctor.tips.float_batches_over_the_bus import float_batches_over_the_bus as tip
from tests.support import facts
from tests.support.rank_traces import copy, site

COPIED = copy("HtoD", "pinned", 50)
TURNS = facts.line(0.3, 17, text="return self.to_tensor(image), label")


def batch(*lines, samples=100):
    return BatchFacts(0.01, 0.01, True, samples, (StageCost(Stage.TRANSFORMING, "", None, 0.9, 90, lines),))


def judged(images, *lines, samples=100):
    return tip(facts.copies(COPIED, sites=(images,)), batch(*lines, samples=samples))


def test_names_the_line_that_turns_to_float_and_the_copy():
    advice = judged(site(ms=50, idle=10, line=21), TURNS)
    assert advice.because == (
        "the device waits 12.0% of the time for batches of [32, 3, 224, 224] in float32",
        "30% of a batch's cost is at line 17 (`return self.to_tensor(image), label`), which converts them to float",
        "as uint8 they would be 25% of the bytes",
    )
    assert [at.line for at in advice.at] == [17, 21]


def test_three_quarters_of_the_copy_go_and_some_of_that_line():
    change = judged(site(ms=100), TURNS).change
    assert change.step.likely == change.step.high == pytest.approx(0.15)
    assert (change.batch.low, change.batch.likely, change.batch.high) == pytest.approx((0.0, 0.15, 0.3))


@pytest.mark.parametrize(
    "text",
    ["x = img.float() / 255", "x = np.asarray(img).astype(np.float32)", "x = F.normalize(x, mean, std)"],
)
def test_knows_the_ways_to_turn_to_float(text):
    assert judged(site(ms=50), facts.line(0.3, text=text)) is not None


@pytest.mark.parametrize(
    "advice",
    [
        pytest.param(judged(site(ms=14.9), TURNS), id="hidden-or-fast"),
        pytest.param(judged(site(ms=50, dtype="uint8"), TURNS), id="already-bytes"),
        pytest.param(judged(site(ms=50, shape=(32, 512, 8, 8)), TURNS), id="no-images"),
        pytest.param(judged(site(ms=50, shape=(32, 512)), TURNS), id="tables"),
        pytest.param(judged(site("DtoH", ms=50), TURNS), id="the-other-way"),
        pytest.param(
            judged(site(ms=50), facts.line(0.3, text="return self.items[index]")), id="nobody-turns-them"
        ),
        pytest.param(judged(site(ms=50), TURNS, samples=9), id="few-samples"),
    ],
)
def test_is_silent(advice):
    assert advice is None
