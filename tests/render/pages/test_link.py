from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.link import Nic
from perfdoctor.render.pages import link
from tests.support import nets
from tests.support.drawn import drawn

GIGABIT = nets.GIGABIT


def test_the_page_shows_the_curve_and_what_it_comes_to() -> None:
    text = drawn(link.page(nets.LOCAL, "/home/ada/digits"))
    assert "perfdoctor net  2 ranks on node0" in text
    assert "gloo · cpu · torch 2.13.0" in text
    assert "1 GB/s between ranks, 100 µs before the first byte" in text
    assert "67.1 MB" in text
    assert "Kept in .perfdoctor/nets/20260102-030405-net" in text
    assert max(map(len, text.splitlines())) <= 80


def test_in_a_narrow_terminal_sizes_and_times_are_whole() -> None:
    rows = [line.split() for line in drawn(link.page(nets.LOCAL), 40).splitlines()]
    assert ["1.05", "MB", "1.15", "ms"] in [row[:4] for row in rows]


def test_names_from_elsewhere_are_harmless() -> None:
    odd = replace(nets.LOCAL, hosts=("a\x1b[2J", "b\x1b[2J"), device="x\x1b[1m", ended="y\x1b[1m")
    assert "\x1b" not in drawn(link.page(odd))


def test_few_sizes_make_a_page_too() -> None:
    few = replace(nets.LOCAL, exchanges=nets.LOCAL.exchanges[:2], cut=64)
    assert "give it more time" in " ".join(drawn(link.page(few)).split())


def test_the_card_is_shown_between_hosts() -> None:
    assert "the card eth0 can carry 1.25 GB/s" in drawn(link.page(nets.REMOTE))
    unknown = replace(nets.REMOTE, nic=Nic("veth", None))
    assert "the card veth does not say what it can carry" in drawn(link.page(unknown))
    assert "the card" not in drawn(link.page(replace(nets.LOCAL, nic=Nic("eth0", GIGABIT))))
