from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.allreduce_every_microstep import allreduce_every_microstep as tip
from tests.support.facts import among, exchange, step
from tests.support.script_facts import parallel

FOUR = replace(step(forward=20, backward=76, optimizer=4), backwards_per_step=4.0)
SYNCED = parallel(synced=4.0, exposed_s=0.01)


def test_counts_the_exchanges_and_names_the_backward():
    advice = tip(FOUR, SYNCED)
    assert advice.because == (
        "gradients are synchronised 4 times per update: 3 too many",
        "10.0 ms of each sync is not overlapped by the backward pass",
    )
    assert [at.line for at in advice.at] == [44]
    assert advice.tweak == "--no-sync"


def test_forward_runs_inside_as_well_for_there_it_is_decided_whether_gradients_are_synchronised():
    within = tip(FOUR, SYNCED).code.partition("no_sync():")[2]
    assert "criterion(model(x), y).backward()" in within


def test_the_extra_exchanges_go():
    share = tip(FOUR, replace(SYNCED, device="cuda")).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.15, 0.27, 0.3))


def test_on_a_cpu_backward_beyond_twice_the_forward_is_exchange_too():
    share = tip(FOUR, SYNCED).change.step  # torch counts 40 ms, backward takes 36 ms too long
    assert (share.low, share.likely, share.high) == pytest.approx((0.135, 0.2565, 0.3))


def test_no_more_than_their_part_of_backward_goes():
    assert tip(FOUR, parallel(synced=4.0, exposed_s=9.0)).change.step.high == pytest.approx(0.76 * 3 / 4)


TIMED = parallel(synced=4.0, exposed_s=9.0, own=among(moving=40.0, waiting=8.0), gradient_sync=exchange())


def test_where_each_exchange_was_timed_that_is_what_one_takes():
    advice = tip(FOUR, TIMED)
    assert advice.because[-1] == "10.0 ms of each sync is not overlapped by the backward pass"
    assert advice.change.step.low == pytest.approx(0.40 * 3 / 4 * 0.5)
    assert advice.change.step.high >= 0.48 * 3 / 4


@pytest.mark.parametrize(
    ("of_step", "found"),
    [
        pytest.param(FOUR, parallel(synced=1.0, unsynced=3.0, exposed_s=0.01), id="already-once"),
        pytest.param(replace(FOUR, backwards_per_step=1.0), SYNCED, id="several-passes-one-backward"),
        pytest.param(replace(FOUR, updates_per_step=2.0), SYNCED, id="an-update-after-each"),
        pytest.param(
            FOUR, parallel(device="cuda", synced=4.0, exposed_s=0.0007), id="just-under-the-threshold"
        ),
        pytest.param(FOUR, parallel(synced=4.0, exposed_s=None), id="not-measured"),
    ],
)
def test_is_silent(of_step, found):
    assert tip(of_step, found) is None
