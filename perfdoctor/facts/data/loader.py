"""Measures the DataLoader that was trained on: LoaderFacts, from its rows and events."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np

from perfdoctor.facts.data.worker_starts import slowed_s
from perfdoctor.facts.decode import location, number
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Floats, Steps
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.steps.summary import quantiles
from perfdoctor.model.measured import LoaderFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.records import Rows
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.loaders import (
    DEFAULT_PREFETCH,
    EpochEndEvent,
    EpochEvent,
    LoaderEvent,
    WorkerEvent,
    WorkersEndEvent,
)

QUANTILES = 32  # enough to show one dear batch in thirty
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


@fact
def loader_facts(rank: RankRecords, span: MeasuredSpan, steps: Steps) -> LoaderFacts | Missing | None:
    """The facts of the training loader, or None where the script has none, or loads once for all steps."""
    if steps.fed_once:
        return None
    made = made_loaders(rank)
    identity = trained_on(rank, span)
    if identity is None:
        return None
    rows = rows_of(rank.loader, identity, span)
    if rows is None or not len(rows):
        return Missing("no batch of a DataLoader was recorded")
    event = next(entry for entry in made if entry.id == identity)
    return _facts(event, rows, rank, span, steps, len(made))


def _facts(
    event: LoaderEvent, rows: Rows, rank: RankRecords, span: MeasuredSpan, steps: Steps, loaders: int
) -> LoaderFacts:
    batches = rows["batches"].astype(np.float64)
    total = float(batches.sum())
    costs = (rows["read_ns"] + rows["collate_ns"]) / 1e9
    p50_s, p95_s = quantiles(costs / batches, batches, (0.5, 0.95))

    def mean(*columns: str) -> float:
        return max(0.0, float(sum(rows[column].sum() for column in columns)) / 1e9 / total)

    epochs = _epochs(rank, event.id, span)
    starts = [entry.startup_ns + entry.first_wait_ns for entry in epochs]
    delivered = _delivered(rank, event.id, epochs)
    size = float(rows["bytes"].sum()) / total
    return LoaderFacts(
        num_workers=event.num_workers,
        batch_size=event.batch_size,
        at=location(user_made(rank, event).at),
        dataset=(event.dataset or "unknown"),
        iterable=event.iterable,
        persistent_workers=event.persistent_workers,
        prefetch_factor=event.prefetch_factor,
        pin_memory=event.pin_memory,
        start_method=event.start_method,
        batches=round(total),
        batch_s=mean("read_ns", "collate_ns"),
        batch_cpu_s=min(mean("read_cpu_ns", "collate_cpu_ns"), mean("read_ns", "collate_ns")),
        batch_p50_s=p50_s,
        batch_p95_s=p95_s,
        collate_s=mean("collate_ns"),
        collate_cpu_s=mean("collate_cpu_ns"),
        batch_bytes=round(size) if size > 0 else None,
        batches_per_step=_per_step(delivered, total, event, span),
        epochs=len(epochs),
        # the first epoch's start also pays for what is done once: the later ones tell, where there are any
        epoch_start_s=sum(starts[1:] or starts) / len(starts[1:] or starts) / 1e9 if starts else None,
        epoch_end_s=_epoch_end_s(rank, event.id),
        epoch_slowed_s=slowed_s(epochs, steps),
        steady_wait_s=_steady_wait_s(rank, event.id, span),
        worker_start_s=_worker_start_s(rank, event.id),
        loaders=loaders,
        epoch_wait_s=sum(starts) / 1e9 / span.steps,
        other_wait_s=wait_s(rank, _others(rank, event.id), span),
        others_restart_s=_others_restart_s(rank, event.id, span),
        spread=_spread(costs / batches, batches),
        samples=int(rows["samples"].sum()),
        items=max((entry.items or 0 for entry in epochs), default=0) or None,
    )


def _epoch_end_s(rank: RankRecords, identity: int) -> float | None:
    """Mean wait for an epoch's end, when workers that do not live on stop."""
    waits = [
        number(entry.end_wait_ns)
        for entry in rank.of(EpochEndEvent)
        if entry.loader == identity and entry.end_wait_ns is not None
    ]
    waits += _stops_ns(rank, identity)
    return sum(waits) / len(waits) / 1e9 if waits else None


def _stops_ns(rank: RankRecords, identity: int) -> list[float]:
    """What stopping the workers of each epoch took that the loop had left before its end."""
    loaders = {pid: entry.loader for entry in rank.of(EpochEvent) for pid in entry.workers or ()}
    return [
        number(entry.wait_ns)
        for entry in rank.of(WorkersEndEvent)
        if entry.workers and loaders.get(entry.workers[0]) == identity
    ]


def _others_restart_s(rank: RankRecords, identity: int, span: MeasuredSpan) -> float:
    """Seconds per step that workers of other loaders (validation) take to start again and to stop."""
    restarted_ns = 0.0
    for event in made_loaders(rank):
        epochs = _epochs(rank, event.id, span)
        if event.id == identity or not event.num_workers or event.persistent_workers or len(epochs) < 2:
            continue
        once_ns = sum(entry.startup_ns for entry in epochs) / len(epochs)
        end_s = _epoch_end_s(rank, event.id) or 0.0
        restarted_ns += (once_ns + end_s * 1e9) * (len(epochs) - 1)
    return min(restarted_ns / 1e9, span.seconds) / span.steps


def _others(rank: RankRecords, identity: int) -> set[int | None]:
    return {entry.loader for entry in rank.of(EpochEvent)} - {identity}


def _spread(costs: Floats, weight: Floats) -> tuple[float, ...]:
    """Batch costs over their mean, at even quantiles: what a queue of batches is simulated with."""
    places = tuple((index + 0.5) / QUANTILES for index in range(QUANTILES))
    values = quantiles(costs, weight, places)
    mean = sum(values) / QUANTILES
    return tuple(cost / mean for cost in values) if mean > 0 else (1.0,)


def made_loaders(rank: RankRecords) -> list[LoaderEvent]:
    """The loaders that the script, or a library, has made."""
    return [entry for entry in rank.of(LoaderEvent) if entry.id]


def user_made(rank: RankRecords, event: LoaderEvent) -> LoaderEvent:
    """The user's own loader, where a library has made the one that delivers around it; else that one.

    Such a library (`accelerator.prepare(loader)`) takes over what the user's loader is made of, which then
    delivers nothing itself. Of several that one line prepares, each is made after its own.
    """
    made, used = made_loaders(rank), {epoch.loader for epoch in rank.of(EpochEvent)}
    alike = [other for other in made if _made_of(other) == _made_of(event)]
    around = [other.id for other in alike if other.at == event.at]
    own = [other for other in alike if other.id < around[0] and other.id not in used]
    return own[around.index(event.id)] if event.own_batch_sampler and len(own) == len(around) else event


def _made_of(event: LoaderEvent) -> tuple[object, ...]:
    return event.dataset, event.batch_size, event.num_workers, event.pin_memory


def trained_on(rank: RankRecords, span: MeasuredSpan) -> int | None:
    """The loader inside whose epochs most steps ended; of several, the one whose batches cost most."""
    made = made_loaders(rank)
    ends = {entry.id: steps_inside(rank, entry.id, span) for entry in made}
    costs = {entry.id: _cost(rows_of(rank.loader, entry.id, span)) for entry in made}
    return max(ends, key=lambda identity: (ends[identity], costs[identity]), default=None)


def steps_inside(rank: RankRecords, identity: int, span: MeasuredSpan) -> int:
    """How many steps ended inside a loader's epochs."""
    finished = {entry.index: entry for entry in rank.of(EpochEndEvent) if entry.loader == identity}
    inside = 0
    for entry in (entry for entry in rank.of(EpochEvent) if entry.loader == identity):
        begin = entry.begin_ns
        end = _left_ns(finished.get(entry.index)) or span.end_ns
        inside += int(np.count_nonzero((span.step_ends_ns > begin) & (span.step_ends_ns <= end)))
    return inside


def _left_ns(ended: EpochEndEvent | None) -> float:
    """When an epoch was over: when it gave no batch any more, or after its last one if the loop left it."""
    if ended is None:
        return 0.0
    return ended.last_ns if ended.end_wait_ns is None else ended.t_ns


def rows_of(rows: Rows | None, identity: int, span: MeasuredSpan) -> Rows | None:
    """A loader's rows up to the last step. Those from before the first step fed it: they count."""
    if rows is None or not set(rows.dtype.names or ()) >= NEEDED:
        return None
    kept: Rows = rows[(rows["loader"] == identity) & (rows["batches"] > 0) & (rows["end_ns"] <= span.end_ns)]
    return kept


def _cost(rows: Rows | None) -> float:
    return 0.0 if rows is None else float(rows["read_ns"].sum() + rows["collate_ns"].sum())


def _epochs(rank: RankRecords, identity: int, span: MeasuredSpan) -> list[EpochEvent]:
    return [
        entry for entry in rank.of(EpochEvent) if entry.loader == identity and entry.begin_ns <= span.end_ns
    ]


def _delivered(rank: RankRecords, identity: int, epochs: Sequence[EpochEvent]) -> float | None:
    """Batches handed to the loop, where every epoch was seen to its end."""
    ended = [entry for entry in rank.of(EpochEndEvent) if entry.loader == identity]
    if not epochs or len(ended) < len(epochs):
        return None
    return sum(entry.batches for entry in ended) or None


def _per_step(delivered: float | None, prepared: float, event: LoaderEvent, span: MeasuredSpan) -> float:
    """Batches a step takes. Workers run ahead, so batches prepared are a little more than batches used."""
    ahead = _ahead(event)
    used = delivered if delivered is not None else max(prepared - ahead, prepared / 2)
    ratio = used / max(1.0, span.steps)
    return float(round(ratio)) if ratio >= 1 and abs(ratio - round(ratio)) < 0.1 * ratio else ratio


def most_ahead(rank: RankRecords, given: Mapping[str, int]) -> int:
    """The most batches that workers of a loader in use prepare ahead; `given` settings replace its own."""
    used = {event.loader for event in rank.of(EpochEvent)}
    return max((_ahead(event, given) for event in rank.of(LoaderEvent) if event.id in used), default=0)


def _ahead(event: LoaderEvent, given: Mapping[str, int] | None = None) -> int:
    settings = given or {}
    prefetch = settings.get("prefetch_factor", event.prefetch_factor or DEFAULT_PREFETCH)
    return settings.get("num_workers", event.num_workers) * prefetch


def _steady_wait_s(rank: RankRecords, identity: int, span: MeasuredSpan) -> float | None:
    """Mean wait for a batch that was not an epoch's first."""
    ended = [entry for entry in rank.of(EpochEndEvent) if entry.loader == identity]
    later = sum(max(0.0, entry.batches - 1) for entry in ended)
    return sum(entry.wait_ns for entry in ended) / later / 1e9 if later else None


def wait_s(rank: RankRecords, identities: Container[int | None], span: MeasuredSpan) -> float:
    """Seconds per step that the loop waited for these loaders, as far as whole epochs were seen."""
    waited_ns = sum(
        entry.startup_ns + entry.first_wait_ns
        for entry in rank.of(EpochEvent)
        if entry.loader in identities and span.holds(entry.t_ns)
    ) + sum(
        entry.wait_ns + (entry.end_wait_ns or 0)
        for entry in rank.of(EpochEndEvent)
        if entry.loader in identities and span.holds(entry.t_ns)
    )
    return min(waited_ns / 1e9, span.seconds) / span.steps


def _worker_start_s(rank: RankRecords, identity: int) -> float | None:
    """Mean time from the start of an epoch's iterator to the first fetch of the workers it started."""
    begins = {
        pid: entry.begin_ns
        for entry in rank.of(EpochEvent)
        if entry.loader == identity
        for pid in entry.workers or ()
    }
    starts = [
        entry.first_fetch_ns - begins[entry.pid]
        for entry in rank.of(WorkerEvent)
        if entry.first_fetch_ns and entry.pid in begins
    ]
    return max(0.0, sum(starts) / len(starts) / 1e9) if starts else None
