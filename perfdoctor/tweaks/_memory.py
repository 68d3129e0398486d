"""How much memory is left, as seen from inside the process that fills it."""

from __future__ import annotations

import os
from typing import Dict, Iterator

from ..probe.loader.batch_costs import free_memory_bytes, text_of

GROUPS = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"


def left_share() -> float:
    """The share of memory that is left: of the machine, or of the control group with the least left."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(1.0, free_memory_bytes() / whole, *map(_left_in, _folders()))


def _folders() -> Iterator[str]:
    """This process's group, of version 2 or 1, and those above, up to where a container shows its own."""
    for line in text_of(OWN).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or "memory" in controllers.split(","):
            mount = os.path.join(GROUPS, "" if number == "0" else "memory")
            parts = [part for part in path.split("/") if part]
            for depth in range(0 if ".." in parts else len(parts), -1, -1):
                yield os.path.join(mount, *parts[:depth])


def _left_in(folder: str) -> float:
    """1.0 where the group has no limit; file pages that the kernel can drop count as left."""
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        allowed, taken = (
            text_of(os.path.join(folder, limit)).strip(),
            text_of(os.path.join(folder, used)).strip(),
        )
        if allowed.isdigit() and int(allowed) and taken.isdigit():
            table = _table(os.path.join(folder, "memory.stat"))
            files = table.get("total_inactive_file", table.get("inactive_file", 0))
            return 1.0 - (int(taken) - files) / int(allowed)
    return 1.0


def _table(path: str) -> Dict[str, int]:
    pairs = [line.split() for line in text_of(path).splitlines()]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
