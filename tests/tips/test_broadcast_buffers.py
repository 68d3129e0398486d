from __future__ import annotations

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.broadcast_buffers import broadcast_buffers as tip
from tests.support.facts import among, exchange, step
from tests.support.script_facts import parallel

STEP = step(forward=40, backward=40, optimizer=20)
MIB = 1 << 20


def sending(seconds=0.020, sent=32 * MIB, buffer_bytes=32 * MIB, moving=25.0, **given):
    by_kind = {"all_reduce": (1.0, MIB, 0.005), "broadcast": (1.0, sent, seconds)}
    return parallel(
        **{
            "buffer_bytes": buffer_bytes,
            "own": among(moving=moving),
            "gradient_sync": exchange(by_kind=by_kind),
            **given,
        }
    )


def test_names_what_is_sent_and_the_constructor():
    advice = tip(STEP, sending())
    assert advice.because == (
        "each forward pass waits for 33.6 MB of buffers from the first rank",
        "1 broadcast a step of 33.6 MB: 20.00 ms, 20.0% of the step",
    )
    assert [at.line for at in advice.at] == [22]
    assert advice.code == "DistributedDataParallel(model, broadcast_buffers=False)"
    assert (advice.bottleneck or Bottleneck.NETWORK) is Bottleneck.NETWORK
    assert not advice.same_result


def test_what_is_hidden_or_waited_for_others_does_not_go():
    share = tip(STEP, sending(moving=10.0)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.05, 0.09, 0.1))


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(sending(buffer_bytes=0), id="turned-off-or-none"),
        pytest.param(sending(sent=MIB), id="broadcasts-of-something-else"),
        pytest.param(sending(seconds=0.0049), id="just-under-the-threshold"),
        pytest.param(sending(gradient_sync=exchange()), id="none-was-recorded"),
        pytest.param(sending(gradient_sync=None), id="no-exchange-was-timed"),
        pytest.param(sending(own=None), id="one-rank-alone"),
    ],
)
def test_is_silent(found):
    assert tip(STEP, found) is None
