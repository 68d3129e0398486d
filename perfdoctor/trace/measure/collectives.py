"""Matches the collectives of several ranks of one job: which rank waits for which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.intervals import NS
from perfdoctor.trace.parse.columns import UNKNOWN, Flags, Floats, ProcessGroup, Trace
from perfdoctor.trace.results import Collectives, RankTrace

# Of a duration: what older profilers write in whole microseconds. Kernels that differ by no more ended a tie.
RESOLUTION_US = 1.0


@dataclass(frozen=True)
class RankWait:
    """One rank's part in the collectives that could be matched."""

    rank: int  # where its trace does not say it, one that no other has
    comm_us: float  # inside its collectives that were matched
    waiting_us: float  # of it, for ranks that entered later: the device counts as busy
    caused_us: float  # how long all others waited for this one
    last: int  # how many of the collectives it entered last, it alone


@dataclass(frozen=True)
class MatchedCollectives:
    """How long ranks wait for each other in the collectives that were found on each of them."""

    matched: int  # collectives found on every rank of their group
    unmatched: int  # kernels that could not be matched
    ranks: tuple[RankWait, ...]
    late: int | None  # the rank that the others wait for most


Key = tuple[ProcessGroup | None, str]  # of kernels that belong together: their group and their name


def collectives(trace: Trace, communication: Flags) -> Collectives:
    """The communication kernels of a rank by begin. `communication`: (device events,) bool."""
    events = np.flatnonzero(communication)
    events = events[np.argsort(trace.device.begin_ns[events], kind="stable")]
    groups = trace.device.group[events].tolist()
    return Collectives(
        names=tuple(trace.names[name] for name in trace.device.name[events].tolist()),
        duration_us=tuple((trace.device.duration_ns[events] / NS).tolist()),
        groups=tuple(None if group == UNKNOWN else trace.groups[group] for group in groups),
    )


def match_collectives(ranks: Sequence[RankTrace]) -> MatchedCollectives | None:
    """Match the collectives of at least two ranks, given in any order; None where nothing can be matched.

    The n-th kernel of a name in a group on one rank belongs to the n-th of these on the group's other ranks;
    those whose counts differ are left out. All ranks leave a collective together, so the rank with the
    shortest kernel entered last, and what the others' took longer they waited; for several of one length
    they waited in equal parts. No common clock is needed.
    """
    if len(ranks) < 2:
        return None
    kernels = [_by_key(rank.collectives) for rank in ranks]
    sums = np.zeros((4, len(ranks)))  # in collectives, waiting, caused, times last
    matched, found = 0, 0
    for key in dict.fromkeys(key for rank in kernels for key in rank):
        members = _members(key, kernels)
        if members is None:
            continue
        duration = np.array([kernels[member][key] for member in members])
        sums[:, members] += _waits(duration)
        matched, found = matched + duration.shape[1], found + duration.size
    if not matched:
        return None
    said = {rank.rank for rank in ranks}
    free = (number for number in count() if number not in said)
    waits = [
        RankWait(rank.rank if rank.rank is not None else next(free), comm, waiting, caused, int(last))
        for rank, (comm, waiting, caused, last) in zip(ranks, sums.T.tolist(), strict=True)
    ]
    total = sum(len(rank.collectives.names) for rank in ranks)
    late = max(waits, key=lambda wait: wait.caused_us)
    return MatchedCollectives(
        matched=matched,
        unmatched=total - found,
        ranks=tuple(waits),
        late=late.rank if late.caused_us > 0 else None,
    )


def _waits(duration: Floats) -> Floats:
    """(4, ranks) of (ranks, n) durations: in collectives, waiting, made the others wait, times last."""
    waiting = duration - duration.min(axis=0)
    waiting[waiting <= RESOLUTION_US] = 0.0
    last = waiting == 0.0
    of_each = last / last.sum(axis=0)  # 1 where it was alone
    return np.stack(
        [
            duration.sum(axis=1),
            waiting.sum(axis=1),
            of_each @ waiting.sum(axis=0),
            (of_each == 1.0).sum(axis=1),
        ]
    )


def _by_key(kernels: Collectives) -> dict[Key, list[float]]:
    by_key: dict[Key, list[float]] = defaultdict(list)
    groups = kernels.groups or (None,) * len(kernels.names)
    for group, name, duration_us in zip(groups, kernels.names, kernels.duration_us, strict=True):
        by_key[group, name].append(duration_us)
    return by_key


def _members(key: Key, kernels: Sequence[Mapping[Key, Sequence[float]]]) -> list[int] | None:
    """Places of the ranks that met in these kernels; None where that is not known, or their counts differ."""
    group, _ = key
    members = [place for place, rank in enumerate(kernels) if key in rank]
    if len(members) < 2 or len({len(kernels[member][key]) for member in members}) > 1:
        return None
    told = group is not None and group.ranks
    is_part = group is not None and UNKNOWN < group.size < len(kernels)
    return None if not told and (is_part or len(members) < len(kernels)) else members
