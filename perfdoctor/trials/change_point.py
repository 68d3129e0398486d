"""Where a slow beginning ends (compiling, trying algorithms, filling allocators), and what compiles later."""

from __future__ import annotations

import math

import numpy as np

from perfdoctor.facts.steps.boundaries import Floats, Ints

STALL_S, STALL = 0.5, 10.0  # a step that takes so long, and so many usual ones, may have compiled once more
SLOWER = 1.5  # a beginning that is so much slower than the rest is warm-up; less is other work on the machine


def slow_beginning(seconds: Floats) -> int:
    """How many first steps compute far longer than the rest: change points, cut off from the left."""
    logs = np.log(np.maximum(seconds, 1e-9))  # a ratio counts, not a single step that took very long
    settled = 0
    while (cut := _change(logs[settled:])) and settled + cut <= len(logs) // 2:
        settled += cut
    return settled


def _change(logs: Floats) -> int:
    """Where a slow beginning ends, by least squares of its mean and the rest's; 0 if it is not that slow."""
    count = len(logs)
    if count < 2:
        return 0
    left = np.arange(1, count)
    sums = np.cumsum(logs)
    excess = sums[:-1] / left - (sums[-1] - sums[:-1]) / (count - left)
    best = int(np.argmax(left * (count - left) * excess**2))
    return best + 1 if excess[best] >= math.log(SLOWER) else 0


def stalls(seconds: Floats) -> Ints:
    """The steps that took as long as if they had compiled."""
    return np.flatnonzero(seconds > max(STALL_S, STALL * float(np.median(seconds))))
