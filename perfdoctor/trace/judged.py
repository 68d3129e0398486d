"""Which of the marked steps are judged: all that is told per step is of these."""

from __future__ import annotations

from collections.abc import Sequence

WARM_UP = 1.5  # a first step this much longer than the median of the others warms up: allocation, autotuning
OTHERS = 2  # steps that must follow before the first can be called longer than usual


def judged(spans_us: Sequence[float], begun: Sequence[int]) -> range:
    """The numbers of the steps that are, of each one's length and of what began in it: operators and calls.

    Without a first one that warmed up, and without a last one in which nothing was done.
    """
    stop = len(spans_us) - _ends_idle(begun)
    return range(warms_up(spans_us[:stop]), stop)


def warms_up(spans_us: Sequence[float]) -> bool:
    """Whether the first step is much longer than those after it."""
    if len(spans_us) <= OTHERS:
        return False
    later = sorted(spans_us[1:])
    return spans_us[0] > WARM_UP * later[len(later) // 2]


def _ends_idle(begun: Sequence[int]) -> bool:
    """Whether the loop had ended before the profiler did: the last mark holds no more than a loader's end."""
    return len(begun) > 1 and not begun[-1] and all(begun[:-1])
