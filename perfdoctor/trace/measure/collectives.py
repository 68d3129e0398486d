"""Matches the collectives of several ranks of one job: which rank waits for which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.intervals import NS
from perfdoctor.trace.parse.columns import Flags, Trace
from perfdoctor.trace.results import Collectives, RankTrace


@dataclass(frozen=True)
class RankWait:
    """One rank's part in the collectives that could be matched."""

    rank: int  # where its trace does not say it, one that no other has
    comm_us: float  # inside these collectives
    waiting_us: float  # of it, for ranks that entered later: the device counts as busy
    caused_us: float  # how long all others waited for this one
    last: int  # how many of the collectives it entered last


@dataclass(frozen=True)
class MatchedCollectives:
    """How long ranks wait for each other in the collectives that were found on each of them."""

    matched: int  # collectives found on every rank
    unmatched: int  # kernels that could not be matched
    ranks: tuple[RankWait, ...]
    late: int | None  # the rank that the others wait for most


def collectives(trace: Trace, communication: Flags) -> Collectives:
    """The communication kernels of a rank by begin. `communication`: (device events,) bool."""
    events = np.flatnonzero(communication)
    events = events[np.argsort(trace.device.begin_ns[events], kind="stable")]
    return Collectives(
        names=tuple(trace.names[name] for name in trace.device.name[events].tolist()),
        duration_us=tuple((trace.device.duration_ns[events] / NS).tolist()),
    )


def match_collectives(ranks: Sequence[RankTrace]) -> MatchedCollectives | None:
    """Match the collectives of at least two ranks, given in any order; None where nothing can be matched.

    The n-th kernel of a name on one rank belongs to the n-th of that name on the others; names whose counts
    differ are left out. All ranks leave a collective together, so the rank with the shortest kernel entered
    last, and what the others' took longer they waited. Durations need no common clock.
    """
    if len(ranks) < 2:
        return None
    by_name = [_by_name(rank.collectives) for rank in ranks]
    names = {name for entry in by_name for name in entry}
    common = [name for name in names if len({len(entry.get(name, ())) for entry in by_name}) == 1]
    if not common:
        return None
    duration = np.array([[us for name in common for us in entry[name]] for entry in by_name])
    shortest = duration.min(axis=0)
    waiting = duration - shortest
    last = duration.argmin(axis=0)
    caused = np.bincount(last, weights=waiting.sum(axis=0), minlength=len(ranks))
    times_last = np.bincount(last, minlength=len(ranks))
    said = {rank.rank for rank in ranks}
    free = (number for number in count() if number not in said)
    waits = [
        RankWait(
            rank=rank.rank if rank.rank is not None else next(free),
            comm_us=float(duration[number].sum()),
            waiting_us=float(waiting[number].sum()),
            caused_us=float(caused[number]),
            last=int(times_last[number]),
        )
        for number, rank in enumerate(ranks)
    ]
    total = sum(len(rank.collectives.names) for rank in ranks)
    late = max(waits, key=lambda wait: wait.caused_us)
    return MatchedCollectives(
        matched=duration.shape[1],
        unmatched=total - duration.size,
        ranks=tuple(waits),
        late=late.rank if late.caused_us > 0 else None,
    )


def _by_name(kernels: Collectives) -> dict[str, list[float]]:
    by_name: dict[str, list[float]] = defaultdict(list)
    for name, duration_us in zip(kernels.names, kernels.duration_us, strict=True):
        by_name[name].append(duration_us)
    return by_name
