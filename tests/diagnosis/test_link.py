from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.diagnosis import link
from perfdoctor.model.link import Nic
from perfdoctor.render.notes import all_worded, worded
from tests.support import nets

GIGABIT = nets.GIGABIT


def told(net):
    return worded(link.advice(net))


def remarked(net):
    return all_worded(link.remarks(net))


def test_what_gradients_take_is_said_with_what_helps() -> None:
    assert told(nets.LOCAL).startswith("synchronising 100 MB of gradients takes 100 ms")
    assert "--no-sync" in told(nets.LOCAL)


def test_ranks_that_stay_far_below_their_card_are_told_where_to_look() -> None:
    slow = replace(nets.REMOTE, exchanges=nets.exchanges(1e-4, 0.3e9))
    assert told(slow).startswith("the ranks reach 36% of what eth0 can carry")
    assert "GLOO_SOCKET_IFNAME=eth0" in told(slow)
    port = replace(slow, backend="nccl", nic=Nic("mlx5_0:1", 10 * GIGABIT))
    assert "NCCL_IB_HCA=mlx5_0)" in told(port)


@pytest.mark.parametrize(
    "net",
    [
        nets.REMOTE,
        replace(nets.REMOTE, exchanges=nets.exchanges(1e-4, 0.3e9), nic=Nic("eth0", None)),
        replace(nets.REMOTE, exchanges=nets.exchanges(1e-4, 0.3e9), nic=None),
        replace(nets.LOCAL, exchanges=nets.exchanges(1e-4, 0.3e9), nic=Nic("eth0", 10 * GIGABIT)),
    ],
    ids=["more-than-half", "unknown-card", "no-card", "one-host"],
)
def test_a_card_is_not_blamed_without_reason(net) -> None:
    assert "can carry" not in told(net)


def test_latency_that_shows_in_whole_buckets_asks_for_larger_ones() -> None:
    far = replace(nets.LOCAL, exchanges=nets.exchanges(0.1, 1e9))
    assert "latency is 79% of the time that one of DDP's buckets" in told(far)
    assert "--ddp-bucket-mb 858" in told(far)


def test_too_few_sizes_or_none_that_takes_longer_have_their_own_sentence() -> None:
    few = replace(nets.LOCAL, exchanges=nets.LOCAL.exchanges[:2], cut=64)
    assert "give it more time" in told(few)
    assert "64 B was left out" in " ".join(remarked(few))
    flat = replace(nets.LOCAL, exchanges=nets.exchanges(1e-4, 1e30))
    assert "only latency counts" in told(flat)


def test_notes_say_what_the_figures_hold() -> None:
    assert "over its loopback" in " ".join(remarked(nets.LOCAL))
    assert "links between its devices" in " ".join(remarked(replace(nets.LOCAL, backend="nccl")))
    assert remarked(nets.REMOTE) == []
    rough = [
        replace(each, seconds=each.seconds * (3 if place % 2 else 1))
        for place, each in enumerate(nets.REMOTE.exchanges)
    ]
    assert "for half of the sizes" in " ".join(remarked(replace(nets.REMOTE, exchanges=tuple(rough))))
    assert "ended early: x" in " ".join(remarked(replace(nets.REMOTE, ended="x")))
