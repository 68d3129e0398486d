from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.function_caches import SmallCache, SmallCacheFacts
from perfdoctor.model.change import NOTHING, Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.small_cache import small_cache as tip
from tests.support.facts import gain

LOAD = Location("/home/me/graphs.py", 44, "pocket_graph", "@lru_cache(maxsize=64)")
CACHE = SmallCache(LOAD, 64, 1000, 800, 0.5, 0.0, 100, Bottleneck.DATA)


def test_says_what_the_cache_holds_and_how_much_is_asked_for():
    advice = tip(SmallCacheFacts((CACHE,)))
    assert advice is not None
    assert advice.because == (
        "the cache of `pocket_graph` holds 64 results; of 1,000 asked for, it had 200",
        "making the others takes 50% of the step",
    )
    assert (advice.at, advice.bottleneck) == ((LOAD,), Bottleneck.DATA)
    assert gain(advice).low == pytest.approx(1 / 0.75)
    assert gain(advice).likely == pytest.approx(1 / 0.55)
    assert gain(advice).high == pytest.approx(2.0)


def test_what_loaders_wait_for_is_a_part_of_the_batch():
    advice = tip(SmallCacheFacts((replace(CACHE, of_batch=0.8),)))
    assert advice is not None
    assert advice.change.batch == Estimate(pytest.approx(0.4), pytest.approx(0.72), pytest.approx(0.8))
    assert advice.change.step == NOTHING


def test_several_caches_are_told_together():
    other = replace(
        CACHE, at=replace(LOAD, line=60, function="angles"), share=0.2, bottleneck=Bottleneck.HOST
    )
    advice = tip(SmallCacheFacts((CACHE, other)))
    assert advice is not None
    assert [at.line for at in advice.at] == [44, 60]
    assert gain(advice).high == pytest.approx(1 / 0.3)


@pytest.mark.parametrize("small", [{"share": 0.04}, {"samples": 4}])
def test_is_silent(small):
    assert tip(SmallCacheFacts((replace(CACHE, **small),))) is None
    assert tip(SmallCacheFacts()) is None
