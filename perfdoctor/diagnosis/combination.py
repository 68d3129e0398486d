"""Puts changes together: seconds that several of them act on go once.

Where in its class of time a change acts is not known. At best each acts on other seconds, and their savings
add up; at worst all act on the same ones, and the largest counts; likely each takes its part of whatever the
others leave. So no combination takes more from a class than the class has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from perfdoctor.model.change import NOTHING, Change, Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass

T = TypeVar("T")

BATCH = 1.0  # what changes of a batch's cost share: all of it
CASES = range(3)  # of an Estimate: best, likely, worst


@dataclass(frozen=True)
class Saving:
    """One change of several, and the classes of the time that it takes away."""

    change: Change
    kinds: tuple[Bottleneck, ...]


def together(parts: Sequence[Saving], classes: Mapping[Bottleneck, float]) -> Change:
    """All of them as one change. `classes`: the share of wall time of each class; they add up to 1."""
    if len(parts) == 1:
        return parts[0].change
    step, moved = NOTHING, NOTHING
    for kinds, changes in sharing((part.kinds, part.change) for part in parts):
        pool = min(1.0, sum(classes.get(kind, 0.0) for kind in kinds)) if kinds else 1.0
        taken = [_sum([change.step, change.moved]) for change in changes]
        parts_left = _fitted(taken, pool)
        step = _sum([step, _scaled([change.step for change in changes], parts_left)])
        moved = _sum([moved, _scaled([change.moved for change in changes], parts_left)])
    every = [part.change for part in parts]
    return Change(
        step=step,
        batch=_from(BATCH, [change.batch for change in every]),
        starts=_largest([change.starts for change in every]),
        moved=moved,
        others=_from(1.0, [change.others for change in every]),
        handed=_from(1.0, [change.handed for change in every]),
        workers=max((change.workers for change in every if change.workers is not None), default=None),
        prefetch=max((change.prefetch for change in every if change.prefetch is not None), default=None),
    )


def sharing(each: Iterable[tuple[Iterable[Bottleneck], T]]) -> list[tuple[frozenset[Bottleneck], list[T]]]:
    """Those that act on a class in common, with all of theirs: the time of each class is given once."""
    groups: list[tuple[frozenset[Bottleneck], list[T]]] = []
    for kinds, one in each:
        own = frozenset(kinds)
        alike = [group for group in groups if group[0] & own or group[0] == own]
        groups = [group for group in groups if group not in alike]
        members = [member for _, others in alike for member in others]
        groups.append((own.union(*(others for others, _ in alike)), [*members, one]))
    return groups


def _largest(taken: Sequence[Estimate]) -> Estimate:
    """What these take together of the same time: workers that live on are kept once, whoever advises it."""
    best, likely, worst = (max(one.at(case) for one in taken) for case in CASES)
    return Estimate(worst, likely, best)


def _from(pool: float, taken: Sequence[Estimate]) -> Estimate:
    """What these take from one pool of time together.

    The pool is attributed, what a change takes of it is estimated: where one takes more, that is the pool.
    """
    best, likely, worst = ([one.at(case) for one in taken] for case in CASES)
    slower = sum(min(0.0, share) for share in worst)  # what costs time costs it beside the others, too
    usual = max(pool, *likely)
    left = math.prod(1.0 - share / usual for share in likely) if usual > 0 else 1.0
    return Estimate(
        low=max(0.0, *worst) + slower,
        likely=usual * (1.0 - left),
        high=min(max(pool, *best), sum(best)),
    )


def _fitted(taken: Sequence[Estimate], pool: float) -> tuple[float, ...]:
    """By what factor each share shrinks, in each case, so that all together take what the pool gives."""
    whole, given = _sum(taken), _from(pool, taken)
    return tuple(given.at(case) / whole.at(case) if whole.at(case) > 0 else 1.0 for case in CASES)


def _scaled(estimates: Sequence[Estimate], factors: Sequence[float]) -> Estimate:
    best, likely, worst = (_sum(estimates).at(case) * factors[case] for case in CASES)
    return Estimate(worst, likely, best)


def _sum(estimates: Sequence[Estimate]) -> Estimate:
    best, likely, worst = (sum(one.at(case) for one in estimates) for case in CASES)
    return Estimate(worst, likely, best)
