"""Numbers of cores as the kernel lists them, written and read."""

from __future__ import annotations

import re
from collections.abc import Iterable

PART = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")  # Linux knows 8,192 cores at most


def core_list(cores: Iterable[int]) -> str:
    """`0-3,8` for 0, 1, 2, 3 and 8."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def listed_cores(core_list: str | None) -> frozenset[int]:
    """The numbers in such a list; none of what is no list."""
    cores: set[int] = set()
    for part in (core_list or "").split(","):
        found = PART.fullmatch(part)
        if found is None:
            return frozenset()
        cores.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(cores)
