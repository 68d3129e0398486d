"""Network cards of this host and what they can carry, as the kernel tells in /sys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from perfdoctor.model.link import Nic

CHOSEN = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
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

    It is the one named in the environment, else InfiniBand where NCCL exchanges, else that of the default
    route, else the fastest.
    """
    cards = nics(root)
    variable = CHOSEN[0] if backend == "nccl" else CHOSEN[1]
    prefix = environ.get(variable, "").split(",")[0].lstrip("^=")
    by_name = [nic for nic in cards if prefix and nic.name.startswith(prefix)]
    infiniband = [nic for nic in cards if backend == "nccl" and not prefix and ":" in nic.name]
    routed = [nic for nic in cards if nic.name == _default_route(root)]
    return next(iter([*by_name, *infiniband, *routed, *cards]), None)


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
