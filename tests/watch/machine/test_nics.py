from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.model.link import Nic
from perfdoctor.watch.machine.nics import nics, used

GIGABIT = 1e9 / 8


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with a slow card by default, a fast one, one that is down, loopback, and InfiniBand."""
    cards = {"eth0": ("up", "1", "1000"), "eth1": ("up", "1", "25000"), "eth2": ("down", "1", "100000")}
    cards |= {"lo": ("unknown", "772", ""), "tap0": ("unknown", "1", "-1")}
    for name, (state, kind, speed) in cards.items():
        folder = tmp_path / "sys/class/net" / name
        write(folder / "operstate", state)
        write(folder / "type", kind)
        if speed:
            write(folder / "speed", speed)
    write(tmp_path / "proc/net/route", "Iface Destination\neth1 0000000A\neth0 00000000")
    return tmp_path


@pytest.fixture
def infiniband(root: Path) -> Path:
    for number, state in (("1", "4: ACTIVE"), ("2", "1: DOWN")):
        port = root / "sys/class/infiniband/mlx5_0/ports" / number
        write(port / "rate", "200 Gb/sec (4X HDR)")
        write(port / "state", state)
    return root


def test_cards_that_are_up_are_found_with_what_they_can_carry(root: Path) -> None:
    assert nics(root) == [Nic("eth1", 25 * GIGABIT), Nic("eth0", GIGABIT), Nic("tap0", None)]


@pytest.mark.parametrize(
    ("name", "told", "rate"),
    [
        pytest.param("eth9", "INTERFACE=eth9", None, id="container"),
        pytest.param("docker0", "DEVTYPE=bridge\nINTERFACE=docker0", None, id="bridge"),
        pytest.param("bond0", "DEVTYPE=bond\nINTERFACE=bond0", 10 * GIGABIT, id="bond"),
    ],
)
def test_the_rate_that_a_virtual_card_makes_up_is_not_known(
    tmp_path: Path, name: str, told: str, rate: float | None
) -> None:
    folder = tmp_path / "sys/devices/virtual/net" / name
    for file, text in (("operstate", "up"), ("type", "1"), ("speed", "10000"), ("uevent", told)):
        write(folder / file, text)
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net" / name).symlink_to(folder)
    assert nics(tmp_path) == [Nic(name, rate)]


def test_a_host_without_sys_has_no_cards(tmp_path: Path) -> None:
    assert nics(tmp_path) == []
    assert used({}, "gloo", tmp_path) is None


def test_the_default_route_tells_which_card_is_used(root: Path) -> None:
    assert used({}, "gloo", root) == Nic("eth0", GIGABIT)
    (root / "proc/net/route").unlink()
    assert used({}, "gloo", root) == Nic("eth1", 25 * GIGABIT)


def test_a_card_named_in_the_environment_comes_first(root: Path) -> None:
    assert used({"GLOO_SOCKET_IFNAME": "eth1,eth0"}, "gloo", root) == Nic("eth1", 25 * GIGABIT)
    assert used({"NCCL_SOCKET_IFNAME": "=eth1"}, "nccl", root) == Nic("eth1", 25 * GIGABIT)
    assert used({"NCCL_SOCKET_IFNAME": "eth1"}, "gloo", root) == Nic("eth0", GIGABIT)


def test_nccl_takes_infiniband_where_a_port_is_active(infiniband: Path) -> None:
    assert used({}, "nccl", infiniband) == Nic("mlx5_0:1", 200 * GIGABIT)
    assert used({}, "gloo", infiniband) == Nic("eth0", GIGABIT)
    no_infiniband = {"NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "eth1"}
    assert used(no_infiniband, "nccl", infiniband) == Nic("eth1", 25 * GIGABIT)


@pytest.mark.parametrize("told", ["eth0", "^docker,lo", ""])
def test_what_nccl_is_told_of_sockets_leaves_infiniband_alone(infiniband: Path, told: str) -> None:
    assert used({"NCCL_SOCKET_IFNAME": told}, "nccl", infiniband) == Nic("mlx5_0:1", 200 * GIGABIT)


@pytest.mark.parametrize(
    ("told", "name"),
    [("^eth0", "eth1"), ("^lo,eth0", "eth1"), ("^=eth", "eth0"), ("^eth", "tap0"), ("=eth,eth1", "eth1")],
)
def test_cards_may_be_ruled_out_and_named_whole(root: Path, told: str, name: str) -> None:
    used_card = used({"NCCL_SOCKET_IFNAME": told}, "nccl", root)
    assert used_card is not None
    assert used_card.name == name
