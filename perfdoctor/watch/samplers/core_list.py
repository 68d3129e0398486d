"""Writes numbers of cores as the kernel lists them."""

from __future__ import annotations

from collections.abc import Iterable


def core_list(cores: Iterable[int]) -> str:
    """`0-3,8` for 0, 1, 2, 3 and 8."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
