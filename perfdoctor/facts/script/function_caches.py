"""Finds caches of functions that forget results before they are asked for again: SmallCacheFacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from perfdoctor.facts.decode import location
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts, charged_most, share_of_batch
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.function_caches import FunctionCacheEvent

TIMES = 2  # as many results made as a cache holds: below that it has only been filled
# Results that were there: without any, arguments may never come again, and no size would do. Where epochs
# visit n arguments in a new order each, the last s of them are there for a share of s * s / (2 * n * n).
FOUND, FOUND_AGAIN = 16, 0.002  # calls, and of all calls
MADE_AGAIN = 0.2  # of the calls: results that come once are made once in a cache of any size, too


@dataclass(frozen=True)
class SmallCache:
    """A function whose cache holds fewer results than are asked for in turn."""

    at: Location
    maxsize: int
    calls: int
    misses: int
    share: float  # of the step's time below the function
    of_batch: float  # of what a batch costs, of which a part is waited for
    samples: int
    bottleneck: Bottleneck


@dataclass(frozen=True)
class SmallCacheFacts:
    """Such caches, the one with the costliest function first."""

    caches: tuple[SmallCache, ...] = ()


@fact
def small_caches(
    events: list[FunctionCacheEvent], step: StepFacts, costs: StackCosts | Missing, sources: Sources
) -> SmallCacheFacts | Missing | None:
    """Of the last look at each cache in each process; None where there is no such cache."""
    small = list(_small(events))
    if not small:
        return None
    if isinstance(costs, Missing):
        return costs
    found = []
    for at, maxsize, calls, misses in small:
        shown = sources.at(at.file, at.line, at.function)
        below = [cost for cost in costs.costs if _is_below(cost, at)]
        if not below or not step.mean_s:
            continue
        share = min(1.0, sum(cost.seconds for cost in below) / step.mean_s)
        of_batch = share_of_batch(below, step)
        samples = sum(cost.samples for cost in below)
        kind = charged_most(below)
        found.append(SmallCache(shown, maxsize, calls, misses, share, of_batch, samples, kind))
    return SmallCacheFacts(tuple(sorted(found, key=lambda cache: -cache.share)))


def _small(events: list[FunctionCacheEvent]) -> Iterator[tuple[Location, int, int, int]]:
    """Caches that are too small, with the calls and misses of all processes."""
    last: dict[tuple[Location, int, int], FunctionCacheEvent] = {}
    for event in events:
        at = location(event.at)
        if at is not None:
            last[at, event.maxsize, event.pid] = event
    calls, misses = Counter[tuple[Location, int]](), Counter[tuple[Location, int]]()
    for (at, maxsize, _), event in last.items():
        if event.misses >= TIMES * maxsize:
            calls[at, maxsize] += event.hits + event.misses
            misses[at, maxsize] += event.misses
    for (at, maxsize), count in calls.items():
        again, hits = misses[at, maxsize], count - misses[at, maxsize]
        if hits >= max(FOUND, FOUND_AGAIN * count) and again >= MADE_AGAIN * count:
            yield at, maxsize, count, again


def _is_below(cost: StackCost, at: Location) -> bool:
    return any(frame.file == at.file and frame.name == at.function for frame in cost.path)
