from __future__ import annotations

import pytest

from perfdoctor.facts.script.recomputation import RecomputationFacts
from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.model.change import Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.needless_recomputation import needless_recomputation as tip
from tests.support.facts import gain
from tests.support.load_facts import GB
from tests.support.script_facts import at

ROOM = BatchRoom(2 * GB, 80 * GB)


def again(share=0.2, used=2, free=8, line=12, on_device=False, calling=None):
    low, high = (share / 2, 1.5 * share) if on_device else (share, share)
    where = at(line) if line else None
    share = Estimate(low, share, high)
    return RecomputationFacts(6.0, share, where, used * GB, free * GB, on_device, calling)


def test_says_what_runs_again_and_that_memory_is_free():
    advice = tip(again(), ROOM)
    assert advice.because == (
        "20% of each step runs parts of the forward pass again, about 6 a step",
        "2 GB of memory are in use, 8 GB are free",
    )
    assert advice.at == (at(12),)
    assert advice.same_result
    assert gain(advice).likely == pytest.approx(1 / 0.8)


def test_on_a_device_it_is_an_estimate():
    advice = tip(again(on_device=True), ROOM)
    assert advice.because == (
        "about 20% of each step runs parts of the forward pass again, about 6 a step",
        "2 GB of the device's memory are in use, 8 GB are free",
    )
    share = advice.change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.08, 0.2, 0.36))


@pytest.mark.parametrize(
    ("calling", "told"),
    [
        (0.15, "the device waits for the host meanwhile, 15% of each step for checkpoint's own calls"),
        (0.0, "the device waits for the host meanwhile"),
    ],
)
def test_where_the_device_waits_for_the_host_it_is_the_hosts_time(calling, told):
    advice = tip(again(share=0.42, on_device=True, calling=calling), ROOM)
    assert advice.because[1] == told
    assert advice.bottleneck is Bottleneck.HOST
    assert tip(again(on_device=True), ROOM).bottleneck is None


def test_what_goes_is_about_the_time_that_computing_again_takes():
    share = tip(again(), ROOM).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.16, 0.2, 0.24))


def test_a_line_that_is_not_known_is_left_out():
    assert tip(again(line=None), ROOM).at == ()


@pytest.mark.parametrize(
    ("of_again", "fires"),
    [
        pytest.param(again(share=0.05), True, id="at-the-threshold"),
        pytest.param(again(share=0.049), False, id="few-blocks"),
        pytest.param(again(used=8, free=8), True, id="as-much-free-as-in-use"),
        pytest.param(again(used=8.1, free=8), False, id="memory-in-use"),
        pytest.param(again(used=70, free=10, on_device=True), False, id="a-devices-memory-in-use"),
    ],
)
def test_fires_only_where_it_costs_time_and_memory_is_free(of_again, fires):
    assert (tip(of_again, ROOM) is not None) is fires


@pytest.mark.parametrize(
    ("room", "fits"),
    [
        pytest.param(BatchRoom(2 * GB, 10 * GB), False, id="what-else-is-in-memory-is-not-known"),
        pytest.param(BatchRoom(20 * GB, 80 * GB, 12 * GB), True, id="little-is-activations"),
        pytest.param(BatchRoom(30 * GB, 80 * GB, 12 * GB), False, id="much-is-activations"),
    ],
)
def test_where_all_activations_may_not_fit_every_second_block_is_advised(room, fits):
    advice = tip(again(), room)
    assert ("index % 2" not in advice.code) is fits
    assert ("keep half" not in advice.because[-1]) is fits
    assert advice.change.step.likely == pytest.approx(0.2 if fits else 0.1)
