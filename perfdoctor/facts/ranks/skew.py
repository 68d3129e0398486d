"""Who waits for whom: what each rank was blocked in each exchange, held against the other ranks.

All ranks leave an all-reduce together. So the rank that was blocked least came last: what it was blocked is
moving, and what the others were blocked longer they waited for it. That needs no common clock. Out of a
broadcast its root goes at once, and the others when it has come: there, the ends of all-reduces align the
clocks of several nodes.

That holds in any group: each is compared by itself. Ranks number their groups as they meet them, so a group
is known by who is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median_high

import numpy as np
import numpy.typing as npt

from perfdoctor.facts.decode import Json, as_count
from perfdoctor.facts.steps.boundaries import Bools, Floats, Ints, Steps
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase
from perfdoctor.runs.records import Rows
from perfdoctor.wire.collective_rows import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    DDP,
    OUTSIDE_GRAD_SYNC,
    REDUCE_SCATTER,
    UNTIMED,
)

Small = npt.NDArray[np.float32]
Members = tuple[int, ...]  # the ranks of a group, in order
EVERYONE: Members = ()  # the same of a group of all ranks

NEEDED = {
    "end_ns",
    "begin_ns",
    "wait_ns",
    "bytes",
    "step",
    "sequence",
    "op",
    "flags",
    "group",
    "ranks",
    "buckets",
}
# Ops that no rank leaves before all have come.
TOGETHER = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BARRIER)
SPENT = tuple(phase for phase in Phase if phase is not Phase.GRAD_SYNC)
ENOUGH = 5  # exchanges; in fewer, one odd moment decides
CELLS = 20_000_000  # figures kept of all ranks: 80 MB, and a few times that while they are compared
ODD = 0.01  # of the exchanges at either end: hiccups of a machine, not a rank's habit


@dataclass(frozen=True)
class CollectiveCalls:
    """One rank's collectives from its second step on, in order. `entry` is the index of their step."""

    keys: npt.NDArray[np.uint64]  # kind and number of the call in its group: the same on all of its ranks
    group: Ints  # its number in this rank
    ranks: Ints  # how many are in it
    entry: Ints
    step: Ints  # updates seen before
    end_ns: Ints
    wait_s: Small
    busy_s: Small
    bytes: Ints
    buckets: Ints
    op: Ints
    ddp: Bools
    timed: Bools
    comparable: Bools  # it shows who came last

    def __getitem__(self, at: Ints | Bools) -> CollectiveCalls:
        return CollectiveCalls(*(column[at] for column in vars(self).values()))


def calls_of(rows: Rows | None, steps: Steps) -> CollectiveCalls | None:
    """Collectives inside steps that count: not the first one, where ranks wait for whoever starts last."""
    if rows is None or not set(rows.dtype.names or ()) >= NEEDED or len(steps.end_ns) < 2:
        return None
    entry = np.searchsorted(steps.end_ns, rows["end_ns"])
    inside = (entry >= 1) & (entry < len(steps.end_ns)) & (rows["end_ns"] >= rows["begin_ns"])
    inside &= (rows["flags"] & OUTSIDE_GRAD_SYNC) == 0
    inside[inside] = ~steps.disturbed[entry[inside]]
    rows, entry = rows[inside], entry[inside]
    if not len(rows):
        return None
    op, ddp = rows["op"].astype(np.int64), (rows["flags"] & DDP) != 0
    kind, timed = (op * 2 + ddp).astype(np.uint64), (rows["flags"] & UNTIMED) == 0
    return CollectiveCalls(
        keys=(kind << np.uint64(32)) | rows["sequence"].astype(np.uint64),
        group=rows["group"].astype(np.int64),
        ranks=rows["ranks"].astype(np.int64),
        entry=entry,
        step=rows["step"].astype(np.int64),
        end_ns=rows["end_ns"].astype(np.int64),
        wait_s=(np.maximum(rows["wait_ns"], 0) / 1e9).astype(np.float32),
        busy_s=((rows["end_ns"] - rows["begin_ns"]) / 1e9).astype(np.float32),
        bytes=np.maximum(rows["bytes"], 0),
        buckets=np.maximum(rows["buckets"].astype(np.int64), 1),
        op=op,
        ddp=ddp,
        timed=timed,
        comparable=timed & np.isin(op, (*TOGETHER, BROADCAST)),
    )


def members_of(groups: Iterable[Json]) -> dict[int, Members]:
    """Who is in each group but the default one, by its number in the rank that tells of them."""
    by_number: dict[int, Members] = {}
    for group in groups:
        number, ranks = as_count(group.get("number")), group.get("ranks")
        if number is not None and isinstance(ranks, list):
            members = tuple(sorted(rank for entry in ranks if (rank := as_count(entry)) is not None))
            # one number for two groups: there were more of them than there are numbers
            by_number[number] = members if by_number.get(number, members) == members else ()
    return {number: members for number, members in by_number.items() if len(members) > 1}


def by_group(
    calls: CollectiveCalls, members: Mapping[int, Members], world: int
) -> dict[Members, CollectiveCalls]:
    """Of one rank's collectives those that can be compared, by who takes part in them.

    Several groups of the same ranks are told apart by their order.
    """
    keys, earlier = calls.keys.copy(), Counter[Members]()
    comparable: dict[Members, Bools] = {}
    for number in np.unique(calls.group).tolist():
        in_group = calls.group == number
        participants = EVERYONE if calls.ranks[in_group].max() >= max(2, world) else members.get(number)
        if participants is None:
            continue
        keys[in_group] |= np.uint64(earlier[participants]) << np.uint64(40)
        earlier[participants] += 1
        comparable[participants] = comparable.get(participants, np.zeros_like(in_group)) | (
            in_group & calls.comparable
        )
    calls = replace(calls, keys=keys)
    return {participants: calls[in_group] for participants, in_group in comparable.items() if in_group.any()}


def spent(steps: Steps) -> Small:
    """(phases, entries) seconds of a step between exchanges: the optimizer's are those of the step before."""
    table = np.stack([steps.phases[phase] / steps.weight for phase in SPENT]).astype(np.float32)
    optimizer = SPENT.index(Phase.OPTIMIZER)
    table[optimizer, 1:] = table[optimizer, :-1].copy()
    return table


@dataclass(frozen=True)
class Skew:
    """Exchanges found on every rank of a group: R ranks, E exchanges. Seconds are of one exchange."""

    ranks: tuple[int, ...]
    blocked_s: Floats  # (R, E), but for the moving part of broadcasts
    moving_s: Floats  # (E,): of that, with every rank there
    in_all_s: Floats  # (R,) blocked in all of these exchanges
    step: Ints  # (E,): the exchange's place in `spent_s`
    spent_s: Small  # (R, S, phases): what each rank did before
    end_ns: Ints  # (E,) on the first rank's clock
    per_step: float  # exchanges in a step
    stands_for: float  # exchanges for each that was kept
    moving_busy: (
        float  # share of the median rank's time with collectives under way in which every rank is there
    )
    left_out: tuple[int, ...] = ()  # ranks with too little in common with the others
    clock_error_s: float | None = None  # of the clocks of several nodes, aligned on the ends of exchanges

    @property
    def count(self) -> int:
        """Exchanges."""
        return len(self.moving_s)

    @property
    def waiting_s(self) -> Floats:
        """(R, E) for ranks that came later."""
        return np.asarray(np.maximum(self.blocked_s - self.moving_s, 0.0))

    @property
    def last(self) -> Ints:
        """(E,) the row of the rank that came last."""
        return np.asarray(np.argmin(self.blocked_s, axis=0))

    def waiting_share(self) -> Floats:
        """(R,) of the time that each was blocked."""
        waiting_s = self.waiting_s.sum(axis=1)
        shares = np.divide(waiting_s, self.in_all_s, out=np.zeros_like(waiting_s), where=self.in_all_s > 0)
        return np.asarray(np.minimum(shares, 1.0))


@dataclass(frozen=True)
class _NodeClock:
    """A node's clock against the first one's, from which it may drift apart steadily."""

    ahead_s: float  # when the first exchange ended
    drift: float  # seconds per second
    error_s: float  # how far ends spread around that

    @classmethod
    def of(cls, at_s: Floats, ahead_s: Floats) -> _NodeClock:
        """By how far it was ahead at some moments, in order: by medians, for some ends are noted late."""
        half = len(at_s) // 2
        early, late = slice(half), slice(half, None)
        apart_s = float(np.median(at_s[late]) - np.median(at_s[early]))
        gained_s = float(np.median(ahead_s[late]) - np.median(ahead_s[early]))
        drift = gained_s / apart_s if apart_s > 0 else 0.0
        low_s, middle_s, high_s = np.percentile(ahead_s - drift * at_s, (5, 50, 95))
        return cls(float(middle_s), drift, float(high_s - low_s) / 2)

    def ahead_at(self, at_s: Floats) -> Floats:
        """By how far it is ahead, so many seconds after the first exchange ended."""
        return np.asarray(self.ahead_s + self.drift * at_s)


UNKNOWN_CLOCK = _NodeClock(np.nan, 0.0, 0.0)


class Matcher:
    """Takes the collectives of one rank after the other, and keeps what is held against each other.

    There is one for each group. `world` is the number of all ranks, by which each keeps less: they are many.
    """

    def __init__(self, world: int) -> None:
        self._world = max(2, world)
        self._first: CollectiveCalls | None = None
        # of the first rank's calls, the first one of each step
        self._heads: Ints = np.zeros(0, dtype=np.int64)
        self._stands_for = 1
        self._ranks: list[int] = []
        self._blocked: list[Small] = []
        self._spent: list[Small] = []
        self._least_busy: Floats = np.zeros(0)
        self._busy: list[float] = []
        self._arrivals_s: list[Floats] = []  # seconds, on the node's own clock, of broadcasts only
        self._nodes: list[str] = []
        self._ends: dict[str, tuple[Ints, Bools]] = {}

    def add(self, rank: int, node: str, calls: CollectiveCalls, spent_s: Small) -> None:
        """One rank's collectives and the phases of its steps (as `spent` gives them)."""
        if self._first is None:
            self._stands_for = _stride(calls, self._world)
            self._first = calls[calls.step % self._stands_for == 0]
            self._heads = np.flatnonzero(np.diff(self._first.entry, prepend=-1))
            self._least_busy = np.full(len(self._first.keys), np.inf)
        places = _places(self._first.keys, calls.keys)
        is_matched = places >= 0
        if not is_matched.any():
            return
        matched = calls[places[is_matched]]
        self._ranks.append(rank)
        self._nodes.append(node)
        arrival_s = (matched.end_ns - self._first.end_ns[0]) / 1e9 - matched.wait_s
        self._arrivals_s.append(_spread(arrival_s, is_matched)[self._first.op == BROADCAST])
        self._blocked.append(_spread(matched.wait_s, is_matched).astype(np.float32))
        busy_s = _spread(matched.busy_s, is_matched)
        np.fmin(self._least_busy, busy_s, out=self._least_busy)
        self._busy.append(float(np.nanmean(busy_s)))
        heads = places[self._heads]
        before_s = spent_s[:, calls.entry[np.maximum(heads, 0)]].T.copy()
        before_s[heads < 0] = np.nan
        self._spent.append(before_s)
        if node not in self._ends:
            ends = np.zeros(len(is_matched), dtype=np.int64)
            ends[is_matched] = matched.end_ns
            self._ends[node] = ends, is_matched

    def compare(self) -> Skew | None:
        """All ranks together, or None where too little was found on every one of them."""
        first = self._first
        if first is None or len(self._ranks) < 2:
            return None
        blocked_s = np.stack(self._blocked)
        is_matched = ~np.isnan(blocked_s)
        kept = _enough(is_matched)
        columns, starts = _exchanges(first, np.asarray(is_matched[kept].all(axis=0)))
        if len(kept) < 2 or len(starts) < ENOUGH:
            return None
        in_all_s = blocked_s[kept][:, columns].sum(axis=1, dtype=np.float64)
        clocks = self._clocks()
        self._for_roots(blocked_s, clocks)
        blocked_s = blocked_s[kept][:, columns]
        transfer_s = np.add.reduceat(blocked_s.min(axis=0), starts)
        places = np.searchsorted(self._heads, columns[starts], side="right") - 1
        steps = len(np.unique(places))
        busy_s = median_high(self._busy[row] for row in kept)
        least_s = float(self._least_busy[columns].mean())
        return Skew(
            ranks=tuple(self._ranks[row] for row in kept),
            blocked_s=np.add.reduceat(blocked_s, starts, axis=1).astype(np.float64),
            moving_s=transfer_s.astype(np.float64),
            in_all_s=in_all_s,
            step=places,
            spent_s=np.stack([self._spent[row] for row in kept]),
            end_ns=first.end_ns[columns[np.append(starts[1:], len(columns)) - 1]],
            per_step=len(starts) / steps,
            stands_for=float(self._stands_for),
            moving_busy=min(1.0, least_s / busy_s) if busy_s > 0 else 0.0,
            left_out=tuple(rank for row, rank in enumerate(self._ranks) if row not in set(kept)),
            clock_error_s=max((clock.error_s for clock in clocks.values()), default=None)
            if len(clocks) > 1
            else None,
        )

    def _for_roots(self, blocked_s: Small, clocks: Mapping[str, _NodeClock]) -> None:
        """Leave of broadcasts only what each rank waited for the root: none where clocks are not known."""
        if self._first is None or not len(self._arrivals_s[0]):
            return
        columns = np.flatnonzero(self._first.op == BROADCAST)
        at_s = (self._first.end_ns[columns] - self._first.end_ns[0]) / 1e9
        ahead_s = [clocks.get(node, UNKNOWN_CLOCK).ahead_at(at_s) for node in self._nodes]
        arrivals_s = np.stack(self._arrivals_s) - np.stack(ahead_s)
        known_s = np.nan_to_num(blocked_s[:, columns], nan=np.inf)
        root_s = arrivals_s[known_s.argmin(axis=0), np.arange(len(columns))]
        waited_s = np.clip(root_s - arrivals_s, 0.0, blocked_s[:, columns])
        blocked_s[:, columns] = np.where(np.isnan(waited_s) & ~np.isnan(blocked_s[:, columns]), 0.0, waited_s)

    def _clocks(self) -> dict[str, _NodeClock]:
        """The clock of each node, by the ends of exchanges: these are at the same moment everywhere."""
        clocks: dict[str, _NodeClock] = {}
        if self._first is None:
            return clocks
        together = self._first.op != BROADCAST
        for node, (ends, is_matched) in self._ends.items():
            node_ends, reference = ends[is_matched & together], self._first.end_ns[is_matched & together]
            if len(node_ends) >= ENOUGH:
                at_s, ahead_s = (reference - self._first.end_ns[0]) / 1e9, (node_ends - reference) / 1e9
                clocks[node] = _NodeClock.of(at_s, ahead_s)
        return clocks


def steady_mean(values: Floats) -> float:
    """The mean; the odd ones at either end count as much as the next."""
    odd, ordered = int(ODD * len(values)), np.sort(values)
    return float(np.clip(values, ordered[odd], ordered[len(values) - 1 - odd]).mean())


def _stride(calls: CollectiveCalls, world: int) -> int:
    """Every how many-th step is kept: a power of two, as the probe thins."""
    steps = len(np.unique(calls.entry))
    figures, stride = (len(calls.keys) + steps * len(SPENT)) * world, 1
    while figures > CELLS * stride and steps > 2 * stride * ENOUGH:
        stride *= 2
    return stride


def _places(wanted: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64]) -> Ints:
    """Where each wanted key stands among others, or -1."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    return np.where(keys[order[place]] == wanted, order[place], -1)


def _spread(values: Floats | Small, is_matched: Bools) -> Floats:
    column = np.full(len(is_matched), np.nan)
    column[is_matched] = values
    return column


def _enough(is_matched: Bools) -> list[int]:
    """The rows to compare: without ranks that have nearly nothing in common with the others."""
    rows = sorted(range(len(is_matched)), key=lambda row: -int(is_matched[row].sum()))
    while len(rows) > 2 and is_matched[rows].all(axis=0).sum() < ENOUGH:
        rows.pop()
    return sorted(rows)


def _exchanges(calls: CollectiveCalls, is_matched: Bools) -> tuple[Ints, Ints]:
    """The columns of exchanges that were found as a whole, and where each begins among them.

    A pass of DDP ends an exchange, with whatever else was called before it in that step; what comes after the
    last one belongs to that. Where there is none (FSDP), all of a step is one.
    """
    ddp = calls.ddp.astype(np.int64)
    first = np.flatnonzero(np.diff(calls.entry, prepend=-1))
    sizes = np.diff(np.append(first, len(ddp)))
    passes = np.repeat(np.add.reduceat(ddp, first), sizes)
    before = np.cumsum(ddp) - ddp
    before = before - np.repeat(before[first], sizes)
    number = np.minimum(before, np.maximum(passes - 1, 0))
    starts = np.flatnonzero((np.diff(calls.entry, prepend=-1) != 0) | (np.diff(number, prepend=-1) != 0))
    is_complete = np.logical_and.reduceat(is_matched, starts)
    lengths = np.diff(np.append(starts, len(ddp)))
    columns = np.flatnonzero(np.repeat(is_complete, lengths))
    kept = lengths[is_complete]
    return columns, (np.cumsum(kept) - kept).astype(np.int64)
