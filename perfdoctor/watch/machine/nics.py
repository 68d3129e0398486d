"""Network cards of this host and what they can carry, as the kernel tells in /sys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perfdoctor.model.link import Nic

CHOSEN = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
NO_INFINIBAND = "NCCL_IB_DISABLE"
BITS = 8
PASSED_ON = ("bond", "vlan", "macvlan")  # virtual cards that name the rate of the real ones below them
DEFAULT_ROUTE = "00000000"  # in /proc/net/route: what no other line holds goes this way
INFINIBAND_RATE = re.compile(r"([\d.]+) Gb/sec")
ROOT = Path("/")


def nics(root: Path = ROOT) -> list[Nic]:
    """The cards that are up, loopback left out; InfiniBand first, then the faster ones."""
    cards = [*_infiniband(root), *_ethernet(root)]
    return sorted(cards, key=lambda nic: (nic.name.startswith("ib"), nic.bytes_per_s or 0.0), reverse=True)


def used(environ: Mapping[str, str], backend: str, root: Path = ROOT) -> Nic | None:
    """The card that ranks of other hosts are likely reached by; None where there is none.

    It is InfiniBand where NCCL exchanges, else the one named in the environment, else that of the default
    route, else the fastest.
    """
    cards, of_nccl = nics(root), backend == "nccl"
    # The variable for sockets leaves InfiniBand alone.
    takes_infiniband = of_nccl and environ.get(NO_INFINIBAND, "0") in ("", "0")
    infiniband = [nic for nic in cards if takes_infiniband and ":" in nic.name]
    sockets = [nic for nic in cards if ":" not in nic.name]
    told = environ.get(CHOSEN[0] if of_nccl else CHOSEN[1], "")
    named = _named(told.removeprefix("^"), sockets)
    if told.startswith("^"):  # all but these
        sockets, named = [nic for nic in sockets if nic not in named], []
    routed = [nic for nic in sockets if nic.name == _default_route(root)]
    return next(iter([*infiniband, *named, *routed, *sockets]), None)


def _named(told: str, sockets: Sequence[Nic]) -> list[Nic]:
    """The cards of a list, in its order: it says how their names begin or, behind a `=`, the whole names."""
    words = [word for word in told.removeprefix("=").split(",") if word]
    if told.startswith("="):
        return [nic for word in words for nic in sockets if nic.name == word]
    return [nic for word in words for nic in sockets if nic.name.startswith(word)]


def _ethernet(root: Path) -> Iterator[Nic]:
    for folder in sorted((root / "sys/class/net").glob("*")):
        kind = _read(folder / "type")
        if _read(folder / "operstate") == "down" or kind == "772":  # 772: loopback, in the kernel's if_arp.h
            continue
        megabits = _read(folder / "speed")
        # -1, no answer: not known
        is_rated = megabits.isdigit() and int(megabits) > 0 and not _made_up(folder)
        yield Nic(folder.name, int(megabits) * 1e6 / BITS if is_rated else None)


def _made_up(folder: Path) -> bool:
    """Whether its driver names the same rate whatever lies behind: cards of containers, tunnels, bridges."""
    kinds = {line.removeprefix("DEVTYPE=") for line in _read(folder / "uevent").splitlines()}
    return is_virtual(folder) and kinds.isdisjoint(PASSED_ON)


def is_virtual(folder: Path) -> bool:
    """Whether no hardware is behind a card: bonds, bridges, tunnels, and the ends of containers' cables."""
    return "virtual" in folder.resolve().parts


def is_part(folder: Path) -> bool:
    """Whether what a card carries shows on another one here as well: it is made of that, or belongs to it."""
    return (folder / "master").exists() or any(folder.glob("lower_*"))


def _infiniband(root: Path) -> Iterator[Nic]:
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        rate = INFINIBAND_RATE.match(_read(port / "rate"))
        if rate and "ACTIVE" in _read(port / "state"):
            yield Nic(f"{port.parent.parent.name}:{port.name}", float(rate[1]) * 1e9 / BITS)


def _default_route(root: Path) -> str | None:
    for line in _read(root / "proc/net/route").splitlines()[1:]:
        words = line.split()
        if len(words) > 1 and words[1] == DEFAULT_ROUTE:
            return words[0]
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):  # speed cannot be read while a card is down
        return ""
