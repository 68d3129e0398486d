from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.accumulation import AccumulationFacts
from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.model.measured import Location, ThreadFacts
from perfdoctor.tips.small_micro_batches import small_micro_batches as tip
from tests.support import facts

STEP = facts.step(forward=40, backward=40, other=20)
AT = (Location("train.py", 77, None, "per_device_train_batch_size=2,"),)
MICRO = AccumulationFacts(16, 2, AT)
ROOM = BatchRoom(10**9, 16 * 10**9)


def threads(module_us=70.0):
    return ThreadFacts(1, None, None, module_us / 1e6 if module_us is not None else None)


def test_names_the_micro_batches_and_what_calls_take():
    advice = tip(facts.run(), STEP, MICRO, threads(), ROOM)
    assert advice.because[0] == "each update is made from 16 micro-batches of 2 samples"
    assert "take 70 µs a module" in advice.because[1]
    assert advice.at == AT
    assert advice.arguments == "per_device_train_batch_size=32, gradient_accumulation_steps=1"
    share = advice.change.step
    assert share.likely == pytest.approx(0.8 * 15 / 16 * 0.8)
    assert share.low < share.likely < share.high


def test_no_larger_ones_are_advised_than_usual():
    advice = tip(facts.run(), STEP, replace(MICRO, size=16), threads(), ROOM)
    assert advice.arguments == "per_device_train_batch_size=64, gradient_accumulation_steps=4"


@pytest.mark.parametrize(
    ("of_run", "micro", "of_threads", "room"),
    [
        pytest.param(facts.run(), MICRO, threads(700), ROOM, id="much-is-computed"),
        pytest.param(facts.run(), MICRO, threads(None), ROOM, id="modules-are-not-known"),
        pytest.param(facts.run(), replace(MICRO, size=64), threads(), ROOM, id="large-ones"),
        pytest.param(facts.run(), MICRO, threads(), BatchRoom(9 * 10**9, 16 * 10**9), id="little-memory"),
        pytest.param(facts.run(device="cuda"), MICRO, threads(), ROOM, id="a-device"),
    ],
)
def test_is_silent(of_run, micro, of_threads, room):
    assert tip(of_run, STEP, micro, of_threads, room) is None


def test_fires_just_above_the_threshold():
    assert tip(facts.run(), STEP, MICRO, threads(590), ROOM) is not None
    assert tip(facts.run(), STEP, MICRO, threads(610), ROOM) is None
