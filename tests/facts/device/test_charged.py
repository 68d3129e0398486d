from __future__ import annotations

import pytest

from perfdoctor.facts.device import device
from perfdoctor.facts.device.charged import attributed_shares
from perfdoctor.model.concluded import Bottleneck
from tests.support.rank_traces import rank, round_trip, step, wait


def test_while_a_tensor_is_at_the_host_and_comes_back_its_copies_keep_the_device_waiting():
    trace = rank((step(1, compute=40),) * 5, round_trips=(round_trip(idle=100),))
    found = device.device_facts(trace)
    shares = attributed_shares(found)
    assert found.away == pytest.approx(0.2)
    assert (shares[Bottleneck.TRANSFER], shares[Bottleneck.HOST]) == pytest.approx((0.2, 0.4))
    assert sum(shares.values()) == pytest.approx(1.0)


def test_what_blocking_copies_take_of_the_way_is_transfer_once():
    blocking = step(1, compute=40, idle={"copy": 15})
    shares = attributed_shares(
        device.device_facts(rank((blocking,) * 5, round_trips=(round_trip(idle=100),)))
    )
    assert (shares[Bottleneck.TRANSFER], shares[Bottleneck.HOST]) == pytest.approx((0.2, 0.4))


@pytest.mark.parametrize(
    ("op", "direction", "transfer"),
    [
        pytest.param("aten::to", "HtoD", 0.2, id="to-the-device"),
        pytest.param("aten::to", "DtoH", 0.0, id="to-the-host"),
        pytest.param("aten::index", "HtoD", 0.0, id="in-another-operator"),
    ],
)
def test_what_the_host_waits_in_operators_that_copy_to_the_device_is_transfer(op, direction, transfer):
    waiting = step(1, compute=40, idle={"sync": 30})
    trace = rank((waiting,) * 5, blocking=(wait(op, idle=100, direction=direction),))
    shares = attributed_shares(device.device_facts(trace))
    assert (shares[Bottleneck.TRANSFER], shares[Bottleneck.HOST]) == pytest.approx((transfer, 0.6 - transfer))


def test_waits_in_pageable_copies_are_transfer_once():
    """Idling beside them has a cause of its own; what is left of the waits may be anybody's."""
    waiting = step(1, compute=40, idle={"copy": 20, "sync": 20})
    trace = rank((waiting,) * 5, blocking=(wait("aten::to", idle=100, direction="HtoD"),))
    shares = attributed_shares(device.device_facts(trace))
    assert (shares[Bottleneck.TRANSFER], shares[Bottleneck.HOST]) == pytest.approx((0.2, 0.4))


def test_while_an_operator_runs_on_the_host_the_host_keeps_the_device_waiting():
    trace = rank((step(1, compute=40),) * 5, round_trips=(round_trip(idle=100, computing=80),))
    shares = attributed_shares(device.device_facts(trace))
    assert (shares[Bottleneck.TRANSFER], shares[Bottleneck.HOST]) == pytest.approx((0.0, 0.6))
