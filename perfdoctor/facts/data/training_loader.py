"""Finds the loader that a script trains on, among those that it has made."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from perfdoctor.facts.decode import location
from perfdoctor.facts.steps.boundaries import Bools
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.runs.records import Rows
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.loaders import EpochEndEvent, EpochEvent, LoaderEvent

NEEDED = {
    "end_ns",
    "loader",
    "worker",
    "batches",
    "samples",
    "read_ns",
    "read_cpu_ns",
    "collate_ns",
    "collate_cpu_ns",
    "bytes",
}

Interval = tuple[float, float]  # from an epoch's begin to where the loop left it, in ns


def trained_on(rank: RankRecords, span: MeasuredSpan) -> frozenset[int]:
    """The loader inside whose epochs most steps ended; of several that feed these, the costliest.

    Of two that are read in turn (`zip`), the one that the loop leaves has a step less in each epoch. What one
    line makes again, for each epoch or each fold, is one loader of several numbers. Empty where the script
    has made none.
    """
    return next(iter(_feeding(rank, span)), frozenset())


def fed_beside(rank: RankRecords, span: MeasuredSpan) -> frozenset[int]:
    """The loaders beside that one inside whose epochs most of the same steps ended."""
    return frozenset[int]().union(*_feeding(rank, span)[1:])


def _feeding(rank: RankRecords, span: MeasuredSpan) -> list[frozenset[int]]:
    """The loaders inside whose epochs most of those steps ended that one of them fed, the costliest first."""
    made = made_loaders(rank)
    epochs = epochs_seen(rank, span)
    ends = steps_inside(epochs, span)
    alike: dict[object, list[int]] = defaultdict(list)
    for event in made:
        alike[(location(event.at), _made_of(event)) if ends.get(event.id) else event.id].append(event.id)
    groups = [part for ids in alike.values() for part in _in_turn(ids, epochs)]
    costs = {ids: _cost(rows_of(rank.loader, ids, span)) for ids in groups}
    most = max(
        groups, key=lambda ids: (sum(ends.get(each, 0) for each in ids), costs[ids]), default=frozenset()
    )
    fed = _fed_by(most, epochs, span)
    feeding = [ids for ids in groups if 2 * np.sum(fed & _fed_by(ids, epochs, span)) > np.sum(fed)]
    return sorted(feeding, key=lambda ids: -costs[ids]) or [most]


def _fed_by(ids: Iterable[int], epochs: Mapping[int, Sequence[Interval]], span: MeasuredSpan) -> Bools:
    """Which steps ended inside the epochs of these loaders."""
    fed: Bools = np.zeros(len(span.step_ends_ns), dtype=bool)
    for interval in (one for each in ids for one in epochs.get(each, ())):
        begin, end = np.searchsorted(span.step_ends_ns, interval, side="right")
        fed[begin:end] = True
    return fed


def _in_turn(ids: Sequence[int], epochs: Mapping[int, Sequence[Interval]]) -> list[frozenset[int]]:
    """All of these as one where none was begun before the one before it was left; else each of them."""
    spans = sorted(interval for each in ids for interval in epochs.get(each, ()))
    if all(after[0] >= before[1] for before, after in itertools.pairwise(spans)):
        return [frozenset(ids)]
    return [frozenset((each,)) for each in ids]


def made_loaders(rank: RankRecords) -> list[LoaderEvent]:
    """The loaders that the script, or a library, has made."""
    return [entry for entry in rank.of(LoaderEvent) if entry.id]


def data_sets(rank: RankRecords) -> dict[int, object]:
    """What tells the data set of each loader: loaders that are made anew may be for the same one."""
    return {
        event.id: ("loader", event.id) if event.contents is None else event.contents
        for event in made_loaders(rank)
    }


def user_made(rank: RankRecords) -> dict[int, LoaderEvent]:
    """By its number, the user's own loader where a library has made that one around it; else that one.

    Such a library (`accelerator.prepare(loader)`) takes over what the user's loader is made of, which then
    delivers nothing itself. Of several that one line prepares, each is made after its own.
    """
    made, used = made_loaders(rank), {epoch.loader for epoch in rank.of(EpochEvent)}
    alike: dict[object, list[LoaderEvent]] = defaultdict(list)
    lines: dict[tuple[object, object], list[LoaderEvent]] = defaultdict(list)
    for event in made:
        alike[_made_of(event)].append(event)
        lines[_made_of(event), location(event.at)].append(event)
    found: dict[int, LoaderEvent] = {event.id: event for event in made}
    for (made_of, _), around in lines.items():
        own = [other for other in alike[made_of] if other.id < around[0].id and other.id not in used]
        if len(own) == len(around):
            pairs = zip(around, own, strict=True)
            found.update((event.id, other) for event, other in pairs if event.own_batch_sampler)
    return found


def _made_of(event: LoaderEvent) -> tuple[object, ...]:
    return event.dataset, event.batch_size, event.num_workers, event.pin_memory


def epochs_seen(rank: RankRecords, span: MeasuredSpan) -> dict[int, list[Interval]]:
    """When each loader's epochs were; one without an end goes on to the last step's."""
    finished = {(entry.loader, entry.index): when_left_ns(entry) for entry in rank.of(EpochEndEvent)}
    seen: dict[int, list[Interval]] = defaultdict(list)
    for entry in rank.of(EpochEvent):
        if entry.loader is not None:
            left_ns = finished.get((entry.loader, entry.index)) or span.end_ns
            seen[entry.loader].append((entry.begin_ns, left_ns))
    return seen


def when_left_ns(ended: EpochEndEvent) -> float:
    """When an epoch was over: when it gave no batch any more, or after its last one if the loop left it."""
    return ended.last_ns if ended.end_wait_ns is None else ended.t_ns


def steps_inside(epochs: Mapping[int, Sequence[Interval]], span: MeasuredSpan) -> dict[int, int]:
    """How many steps ended inside each loader's epochs."""
    return {loader: sum(_ends_inside(span, intervals)) for loader, intervals in epochs.items()}


def _ends_inside(span: MeasuredSpan, intervals: Iterable[Interval]) -> Iterable[int]:
    for interval in intervals:
        begin, end = np.searchsorted(span.step_ends_ns, interval, side="right")
        yield max(0, int(end - begin))


def rows_of(
    rows: Rows | None, loaders: Iterable[int], span: MeasuredSpan, begin_ns: float = 0.0
) -> Rows | None:
    """Rows of these loaders from a moment up to the last step. Those from before the first step fed it."""
    if rows is None or not set(rows.dtype.names or ()) >= NEEDED:
        return None
    kept: Rows = rows[
        np.isin(rows["loader"], list(loaders))
        & (rows["batches"] > 0)
        & (rows["end_ns"] <= span.end_ns)
        & (rows["end_ns"] >= begin_ns)
    ]
    return kept


def _cost(rows: Rows | None) -> float:
    return 0.0 if rows is None else float(rows["read_ns"].sum() + rows["collate_ns"].sum())
