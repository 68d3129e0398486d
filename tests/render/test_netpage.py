from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.nics import Nic
from perfdoctor.render import netpage
from tests import nets

GIGABIT = nets.GIGABIT


def test_the_page_shows_the_curve_and_what_it_comes_to() -> None:
    text = netpage.page(nets.LOCAL, 80, cwd="/home/ada/digits")
    assert "perfdoctor net  2 ranks on node0" in text
    assert "gloo · cpu · torch 2.13.0" in text
    assert "1 GB/s between ranks, 100 µs before the first byte" in text
    assert "67.1 MB" in text
    assert "Kept in .perfdoctor/nets/20260102-030405-net" in text
    assert max(map(len, text.splitlines())) <= 80


def test_names_from_elsewhere_are_harmless() -> None:
    odd = replace(nets.LOCAL, hosts=("a\x1b[2J", "b\x1b[2J"), device="x\x1b[1m", ended="y\x1b[1m")
    assert "\x1b" not in netpage.page(odd)


def test_what_gradients_take_is_said_with_what_helps() -> None:
    assert netpage.advice(nets.LOCAL).startswith("to exchange 100 MB of gradients takes 100 ms")
    assert "--no-sync" in netpage.advice(nets.LOCAL)


def test_ranks_that_stay_far_below_their_card_are_told_where_to_look() -> None:
    slow = replace(nets.REMOTE, exchanges=nets.exchanges(1e-4, 0.3e9))
    assert netpage.advice(slow).startswith("the ranks reach 36% of what eth0 can carry")
    assert "GLOO_SOCKET_IFNAME=eth0" in netpage.advice(slow)
    port = replace(slow, backend="nccl", nic=Nic("mlx5_0:1", 10 * GIGABIT))
    assert "NCCL_SOCKET_IFNAME=mlx5_0)" in netpage.advice(port)


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
    assert "can carry" not in netpage.advice(net)


def test_latency_that_shows_in_whole_buckets_asks_for_larger_ones() -> None:
    far = replace(nets.LOCAL, exchanges=nets.exchanges(0.1, 1e9))
    assert "latency is 79% of exchanging one of DDP's buckets" in netpage.advice(far)
    assert "--ddp-bucket-mb 858" in netpage.advice(far)


def test_too_few_sizes_or_none_that_takes_longer_have_their_own_sentence() -> None:
    few = replace(nets.LOCAL, exchanges=nets.LOCAL.exchanges[:2], cut=64)
    assert "give it more time" in netpage.advice(few)
    assert "64 B would have taken longer" in " ".join(netpage.notes(few))
    assert netpage.page(few)
    flat = replace(nets.LOCAL, exchanges=nets.exchanges(1e-4, 1e30))
    assert "exchang" in netpage.advice(flat)


def test_notes_say_what_the_figures_hold() -> None:
    assert "over its loopback" in " ".join(netpage.notes(nets.LOCAL))
    assert "links between its devices" in " ".join(netpage.notes(replace(nets.LOCAL, backend="nccl")))
    assert netpage.notes(nets.REMOTE) == []
    rough = [
        replace(each, seconds=each.seconds * (3 if place % 2 else 1))
        for place, each in enumerate(nets.REMOTE.exchanges)
    ]
    assert "misses half of the sizes" in " ".join(netpage.notes(replace(nets.REMOTE, exchanges=tuple(rough))))
    assert "before its time: x" in " ".join(netpage.notes(replace(nets.REMOTE, ended="x")))


def test_the_card_is_shown_between_hosts() -> None:
    assert "the card eth0 can carry 1.25 GB/s" in netpage.page(nets.REMOTE)
    unknown = replace(nets.REMOTE, nic=Nic("veth", None))
    assert "the card veth does not say what it can carry" in netpage.page(unknown)
    assert "the card" not in netpage.page(replace(nets.LOCAL, nic=Nic("eth0", GIGABIT)))
