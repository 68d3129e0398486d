"""The counts of the network, as they are and as systems tell them."""

from __future__ import annotations

import socket
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from perfdoctor.watch.samplers import network
from perfdoctor.watch.samplers.network import Network, tcp_counts

SNMP = """Ip: Forwarding DefaultTTL
Ip: 2 64
Tcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens OutSegs RetransSegs
Tcp: 1 -1 31 17 15681 4
Udp: InDatagrams
Udp: 25
"""
UNKNOWN = {"opened_connections": None, "sent_segments": None, "resent_segments": None}
REQUESTS, ANSWER = 20, bytes(10_000)

Counters = namedtuple("Counters", ["bytes_recv", "bytes_sent"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with TCP and a gigabit card."""
    card = tmp_path / "sys/class/net/eth0"
    card.mkdir(parents=True)
    for name, text in (("operstate", "up"), ("type", "1"), ("speed", "1000")):
        (card / name).write_text(f"{text}\n")
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/snmp").write_text(SNMP)
    return tmp_path


def test_cards_are_told_apart_from_each_other_and_from_loopback(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = {"lo": Counters(5, 5), "eth0": Counters(70, 8), "eth1": Counters(0, 9), "tun0": Counters(2, 1)}
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: counters)
    assert Network(root).read() == {
        "received_bytes": 72,
        "sent_bytes": 18,
        "loopback_bytes": 5,
        "cards": {
            "eth0": {"received_bytes": 70, "nominal_bytes_per_s": 125e6},
            "tun0": {"received_bytes": 2, "nominal_bytes_per_s": None},
        },
        "opened_connections": 31,
        "sent_segments": 15681,
        "resent_segments": 4,
    }


def virtual(root: Path, name: str, *parts: str) -> None:
    """A card without hardware, with links to others."""
    folder = root / "sys/devices/virtual/net" / name
    folder.mkdir(parents=True)
    for part in parts:
        (folder / part).symlink_to(root / "sys/class/net")
    (root / "sys/class/net" / name).symlink_to(folder)


def test_what_bonds_bridges_and_containers_carry_counts_by_the_cards_of_hardware(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bond0", "br0", "veth1", "wg0"):
        virtual(root, name)
    counters = {"eth0": Counters(70, 8), "bond0": Counters(70, 8), "br0": Counters(60, 7)}
    counters |= {"veth1": Counters(60, 7), "wg0": Counters(50, 6)}
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: counters)
    found = Network(root).read()
    assert found is not None
    assert (found["received_bytes"], found["sent_bytes"]) == (70, 8)
    assert list(found["cards"]) == ["eth0", "bond0", "br0", "veth1", "wg0"]


def test_in_a_container_the_cards_count_that_are_no_part_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sys/class/net").mkdir(parents=True)
    virtual(tmp_path, "eth0")
    virtual(tmp_path, "docker0", "lower_veth1")
    virtual(tmp_path, "veth1", "master")
    counters = {"eth0": Counters(70, 8), "docker0": Counters(60, 7), "veth1": Counters(60, 7)}
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: counters)
    found = Network(tmp_path).read()
    assert found is not None
    assert (found["received_bytes"], found["sent_bytes"]) == (70, 8)


def test_of_hundreds_of_cards_those_are_kept_that_received_most(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = {f"veth{number}": Counters(number, 0) for number in range(300)}
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: counters)
    found = Network(root).read()
    assert found is not None
    assert list(found["cards"]) == [f"veth{number}" for number in range(299, 299 - network.MOST_CARDS, -1)]


def test_a_namespace_with_nothing_but_loopback_is_sampled(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: {"lo": Counters(5, 5)})
    found = Network(root).read()
    assert found is not None
    assert (found["received_bytes"], found["loopback_bytes"], found["cards"]) == (0, 5, {})


@pytest.mark.parametrize("text", [None, "", "Tcp: ActiveOpens\n", "Tcp: ActiveOpens\nTcp: many\n"])
def test_counts_that_a_system_does_not_tell_are_unknown_and_not_zero(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "snmp").write_text(text)
    assert tcp_counts(tmp_path / "snmp") == UNKNOWN


def test_what_a_server_on_this_machine_is_asked_for_is_counted() -> None:
    before = Network().read()
    if before is None or before["opened_connections"] is None:
        pytest.skip("this system does not count connections")
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(REQUESTS):
            with socket.create_connection(server.getsockname()) as client, server.accept()[0] as answering:
                answering.sendall(ANSWER)
                client.recv(len(ANSWER), socket.MSG_WAITALL)
    after = Network().read()
    assert after is not None
    grown = {name: after[name] - before[name] for name in ("opened_connections", "loopback_bytes")}
    assert grown["opened_connections"] >= REQUESTS
    assert grown["loopback_bytes"] >= REQUESTS * len(ANSWER)
