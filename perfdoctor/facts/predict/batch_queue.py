"""Plays through how workers deliver batches of unlike costs: in order, and a few ahead of the step."""

from __future__ import annotations

from functools import lru_cache

EVEN = (1.0,)  # the spread of batches that all cost the same
QUEUE_BATCHES = 256  # enough to fill any prefetch queue many times


# Tips ask what a change brings, and who ranks them asks again: for each alone, and beside others.
@lru_cache(maxsize=2048)
def queue(compute_s: float, data_s: float, spread: tuple[float, ...], workers: int, prefetch: int) -> float:
    """Mean step where batches cost `data_s` times one of `spread` each and are delivered in order."""
    costs = [data_s * factor for factor in _shuffled(spread)]
    # More than there are batches change nothing: a damaged run may tell of a number that no memory holds.
    workers, ahead = min(workers, QUEUE_BATCHES), min(workers * prefetch, QUEUE_BATCHES)
    # When each batch was ready and taken, behind what stands for the batches before them.
    ready, taken = [0.0] * workers, [0.0] * ahead
    now = 0.0
    # Both lists grow under the loop, which reads what was added `workers` or `ahead` batches ago.
    for cost, free, asked in zip(costs, ready, taken, strict=False):
        # Spelled out: as calls of `max`, they would be most of the time that a report takes to conclude.
        done = (free if free > asked else asked) + cost
        ready.append(done)
        if done > now:
            now = done
        taken.append(now)
        now += compute_s
    settled = len(costs) // 4
    return (taken[-1] - taken[ahead + settled]) / (len(costs) - 1 - settled)


@lru_cache(maxsize=8)
def _shuffled(spread: tuple[float, ...]) -> tuple[float, ...]:
    """The factors over and over, in an order that looks random and is always the same."""
    places = ((index * 0.6180339887498949) % 1.0 for index in range(QUEUE_BATCHES))
    return tuple(spread[int(place * len(spread))] for place in places)
