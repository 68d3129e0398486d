"""What the kernel counts of the network: bytes of each interface, and what becomes of TCP's connections.

The counts are those of this network namespace; no system tells them by process.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import psutil

from perfdoctor.watch.machine.nics import is_part, is_virtual, nics

LOOPBACK = ("lo", "lo0")
MOST_CARDS = 8  # those that received most: a host of containers has hundreds of virtual ones
TCP = {  # our words for the kernel's, those of RFC 1213
    "opened_connections": "ActiveOpens",
    "sent_segments": "OutSegs",
    "resent_segments": "RetransSegs",
}


class Network:
    """Reads the counts; what the cards can carry is asked once."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._cards = root / "sys/class/net"
        self._virtual: dict[str, bool] = {}
        self._nominal = {nic.name: nic.bytes_per_s for nic in nics(root)}

    def read(self) -> dict[str, Any] | None:
        """The counts so far; sums leave loopback out, and count no byte twice. What is not told is None."""
        try:
            counters = psutil.net_io_counters(pernic=True)
        except (OSError, RuntimeError):
            return None
        if not counters:
            return None
        cards = {name: value for name, value in counters.items() if name not in LOOPBACK}
        summed = [cards[name] for name in self._carriers(cards)]
        busiest = sorted(cards, key=lambda name: -cards[name].bytes_recv)[:MOST_CARDS]
        return {
            "received_bytes": sum(value.bytes_recv for value in summed),
            "sent_bytes": sum(value.bytes_sent for value in summed),
            "loopback_bytes": sum(counters[name].bytes_recv for name in counters.keys() & LOOPBACK),
            "cards": {
                name: {
                    "received_bytes": cards[name].bytes_recv,
                    "nominal_bytes_per_s": self._nominal.get(name),
                }
                for name in busiest
                if cards[name].bytes_recv
            },
            **tcp_counts(self._root / "proc/net/snmp"),
        }

    def _carriers(self, names: Collection[str]) -> list[str]:
        """The cards of hardware, through which goes what bonds, bridges and containers send and receive.

        A container has none: there it is those that are no part of another one.
        """
        real = [name for name in names if not self._is_virtual(name)]
        return real or [name for name in names if not is_part(self._cards / name)]

    def _is_virtual(self, name: str) -> bool:
        if name not in self._virtual:
            self._virtual[name] = is_virtual(self._cards / name)
        return self._virtual[name]


def tcp_counts(path: Path) -> dict[str, int | None]:
    """TCP's counts in such a file, which names them in one line and counts in the next."""
    counts: dict[str, int] = {}
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.startswith("Tcp:")]
        counts = {name: int(count) for name, count in zip(lines[0][1:], lines[1][1:], strict=True)}
    except (OSError, ValueError, IndexError):
        pass  # not Linux, or no TCP
    return {ours: counts.get(theirs) for ours, theirs in TCP.items()}
