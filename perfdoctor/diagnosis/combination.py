"""Puts changes together: seconds that several of them act on go once.

Where in its class of time a change acts is not known. At best each acts on other seconds, and their savings
add up; at worst all act on the same ones, and the largest counts; likely each takes its part of whatever the
others leave. So no combination takes more from a class than the class has.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

from perfdoctor.model.change import NOTHING, Change, Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass

T = TypeVar("T")
Kinds = frozenset[Bottleneck]

BATCH = 1.0  # what changes of a batch's cost share: all of it
OF_THREAD = ("step", "moved", "pauses")  # shares of a Change that leave the training thread
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

    def pool(kinds: Kinds) -> float:
        return min(1.0, sum(classes.get(kind, 0.0) for kind in kinds)) if kinds else 1.0

    thread = dict.fromkeys(OF_THREAD, NOTHING)
    for linked in _linked(by_kinds((part.kinds, part.change) for part in parts)):
        taken: dict[str, list[Estimate]] = {name: [] for name in OF_THREAD}
        for kinds, changes in linked:
            shares = {name: [getattr(change, name) for change in changes] for name in OF_THREAD}
            left = _fitted([_sum(each) for each in zip(*shares.values(), strict=True)], pool(kinds))
            for name, of_changes in shares.items():
                taken[name].append(_scaled(of_changes, left))
        every_kinds = [kinds for kinds, _ in linked]
        whole = [_sum(each) for each in zip(*taken.values(), strict=True)]
        given = _factors(_shared(every_kinds, whole, pool(frozenset().union(*every_kinds))), _sum(whole))
        thread = {name: _sum([thread[name], _scaled(taken[name], given)]) for name in OF_THREAD}
    every = [part.change for part in parts]
    return Change(
        step=thread["step"],
        moved=thread["moved"],
        pauses=thread["pauses"],
        batch=_from(BATCH, [change.batch for change in every]),
        starts=largest([change.starts for change in every]),
        others=_from(1.0, [change.others for change in every]),
        handed=_from(1.0, [change.handed for change in every]),
        workers=max((change.workers for change in every if change.workers is not None), default=None),
        prefetch=max((change.prefetch for change in every if change.prefetch is not None), default=None),
    )


def by_kinds(each: Iterable[tuple[Iterable[Bottleneck], T]]) -> dict[Kinds, list[T]]:
    """Those that act on the very same classes, by these."""
    groups: dict[Kinds, list[T]] = defaultdict(list)
    for kinds, one in each:
        groups[frozenset(kinds)].append(one)
    return groups


def in_all(taken: Mapping[Kinds, Estimate], pool: Callable[[Kinds], float]) -> Estimate:
    """What groups take together of the time of their classes, each of which is given once.

    `taken`: what those take that act on the same classes; `pool`: the time that some classes have.
    """
    linked = _linked({kinds: [estimate] for kinds, estimate in taken.items()})
    return _sum(
        [
            _shared(
                [kinds for kinds, _ in groups],
                [estimate for _, (estimate,) in groups],
                pool(frozenset().union(*(kinds for kinds, _ in groups))),
            )
            for groups in linked
        ]
    )


def largest(taken: Sequence[Estimate]) -> Estimate:
    """What these take together of the same time: workers that live on are kept once, whoever advises it."""
    best, likely, worst = (max(one.at(case) for one in taken) for case in CASES)
    return Estimate(worst, likely, best)


def _linked(groups: Mapping[Kinds, list[T]]) -> list[list[tuple[Kinds, list[T]]]]:
    """The groups, together with those that they have a class in common with, or are linked to by others."""
    found: list[list[tuple[Kinds, list[T]]]] = []
    for kinds, members in groups.items():
        alike = [linked for linked in found if any(kinds & other for other, _ in linked)]
        found = [linked for linked in found if linked not in alike]
        found.append([*(group for linked in alike for group in linked), (kinds, members)])
    return found


def _shared(kinds: Sequence[Kinds], taken: Sequence[Estimate], pool: float) -> Estimate:
    """What linked groups take of the time of all their classes.

    At worst, those that have a class in common act on the same seconds, and only others add up.
    """
    worst = max(
        (
            sum(taken[index].low for index in chosen)
            for size in range(1, len(kinds) + 1)
            for chosen in combinations(range(len(kinds)), size)
            if all(not kinds[one] & kinds[other] for one, other in combinations(chosen, 2))
        ),
        default=0.0,
    )
    whole = _sum(taken)
    likely = min(whole.likely, max(pool, *(one.likely for one in taken)))
    return Estimate(
        min(worst, whole.low, likely), likely, min(whole.high, max(pool, *(one.high for one in taken)))
    )


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
    return _factors(_from(pool, taken), _sum(taken))


def _factors(given: Estimate, whole: Estimate) -> tuple[float, ...]:
    return tuple(given.at(case) / whole.at(case) if whole.at(case) > 0 else 1.0 for case in CASES)


def _scaled(estimates: Sequence[Estimate], factors: Sequence[float]) -> Estimate:
    best, likely, worst = (_sum(estimates).at(case) * factors[case] for case in CASES)
    return Estimate(worst, likely, best)


def _sum(estimates: Sequence[Estimate]) -> Estimate:
    best, likely, worst = (sum(one.at(case) for one in estimates) for case in CASES)
    return Estimate(worst, likely, best)
