from __future__ import annotations

import pytest

from perfdoctor.tips.repeated_forward import repeated_forward
from perfdoctor.tips.repeated_parametrizations import repeated_parametrizations as tip
from perfdoctor.wire.events.training import PARAMETRIZATION
from tests.support.facts import run, step
from tests.support.script_facts import repeats

RECURRENT = step(forward=3, backward=6, optimizer=1)


def parametrized(share=0.14, **given):
    return repeats(
        share, **{"first": 55, "again": 55, "recording": True, "count": 35, **given}, module=PARAMETRIZATION
    )


def test_says_how_often_and_where():
    advice = tip(run(), RECURRENT, parametrized())
    assert advice.because[:2] == (
        "a step recomputes parametrized weights 35 times although they have not changed",
        "that takes 14.0% of the step, and backward through each of them as well",
    )
    assert [at.line for at in advice.at] == [55]
    assert "parametrize.cached()" in advice.code


def test_backward_goes_with_it_as_it_does_with_the_rest():
    share = tip(run(), RECURRENT, parametrized()).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.14, 0.42, 0.7))
    short = tip(run(), step(forward=6, backward=3, optimizer=1), parametrized()).change.step
    assert (short.likely, short.high) == pytest.approx((0.21, 0.44))


def test_on_a_device_nothing_is_sure_to_go():
    share = tip(run(device="Tesla V100"), RECURRENT, parametrized()).change.step
    assert (share.low, share.likely) == pytest.approx((0.0, 0.42))


def test_without_gradients_backward_stays():
    share = tip(run(), RECURRENT, parametrized(recording=False)).change.step
    assert share.high == pytest.approx(0.14)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(parametrized(0.029), id="just-under-the-threshold"),
        pytest.param(parametrized(seen=0.49), id="in-some-steps-only"),
        pytest.param(repeats(0.2), id="a-module-of-the-scripts"),
    ],
)
def test_is_silent(found):
    assert tip(run(), RECURRENT, found) is None


def test_it_is_told_once():
    assert repeated_forward(run(), RECURRENT, parametrized()) is None
