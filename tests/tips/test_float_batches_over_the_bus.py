from __future__ import annotations

import pytest

from perfdoctor.facts.predict.step_model import build
from perfdoctor.model.batch import BatchFacts, Stage, StageCost
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.float_batches_over_the_bus import float_batches_over_the_bus as tip
from tests.support import facts
from tests.support.rank_traces import copy, site

COPIED = copy("HtoD", "pinned", 50)
TURNS = facts.line(0.3, 17, text="return self.to_tensor(image), label")


BUSY = facts.step(forward=4, backward=6)
LATE = facts.step(data_wait=15, forward=3)


def batch(*lines, samples=100, collates="torch", collating=0.0):
    costs = (
        StageCost(Stage.TRANSFORMING, "", None, 0.9 - collating, 90, lines),
        StageCost(Stage.COLLATING, "", collates, collating, 10),
    )
    return BatchFacts(0.01, 0.01, True, samples, costs)


def judged(images, *lines, step=BUSY, **given):
    return tip(step, facts.copies(COPIED, sites=(images,)), batch(*lines, **given))


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


def test_where_the_step_waits_for_batches_their_bytes_are_collated_and_pinned_too():
    advice = judged(site(ms=5), TURNS, step=LATE, collating=0.5)
    assert advice.because[1] == "83% of each step waits for the next batch"
    assert (
        advice.because[3]
        == "as uint8 they would be 25% of the bytes, 50% of a batch's cost is collating them"
    )
    assert (advice.bottleneck, advice.also) == (Bottleneck.DATA, (Bottleneck.TRANSFER,))
    assert judged(site(ms=50), TURNS).bottleneck is None
    change = advice.change
    batch = change.batch
    assert (batch.low, batch.likely, batch.high) == pytest.approx((0.1875, 0.15 + 0.375, 0.3 + 0.375))
    assert (change.handed.low, change.handed.likely, change.handed.high) == pytest.approx((0.375, 0.75, 0.75))
    doubles = judged(site(ms=5, dtype="float64"), TURNS, step=LATE, collating=0.5)
    assert doubles.change.handed.likely == pytest.approx(7 / 8)


def test_a_collate_function_of_the_users_is_not_known_to_go_with_the_bytes():
    change = judged(site(ms=5), TURNS, step=LATE, collating=0.5, collates=None).change
    assert (change.batch.low, change.batch.likely) == pytest.approx((0.0, 0.15))


def test_one_thread_that_pins_float_batches_is_what_goes():
    of_loader = facts.loader(workers=10, batch=60, pin_memory=True)
    late = build(facts.step(data_wait=15, forward=3), of_loader, facts.cpu(16), pins=(1.0, 1.0, 1.0))
    gain = facts.gain(judged(site(ms=5), TURNS, step=LATE, collating=0.5), late)
    assert gain.likely == pytest.approx(4.0, rel=0.05)
    assert gain.low == pytest.approx(1.6, rel=0.05)


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
        pytest.param(
            judged(site(ms=14.9), TURNS, step=facts.step(data_wait=0.9, forward=9.1), collating=0.5),
            id="hardly-waited-for",
        ),
        pytest.param(
            judged(site("DtoH", ms=50), TURNS, step=LATE), id="the-other-way-while-batches-are-late"
        ),
        pytest.param(judged(site(dtype="uint8"), TURNS, step=LATE), id="already-bytes-while-they-are-late"),
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
