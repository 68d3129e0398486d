"""Measures the DataLoader that was trained on: LoaderFacts, from its rows and events."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence, Set

import numpy as np

from perfdoctor.facts.data.training_loader import (
    data_sets,
    fed_beside,
    made_loaders,
    rows_of,
    trained_on,
    user_made,
    when_left_ns,
)
from perfdoctor.facts.data.worker_starts import slowed_s
from perfdoctor.facts.decode import location, number
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Floats, Steps
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.steps.summary import quantiles
from perfdoctor.model.measured import LoaderFacts, Location, RestartingLoader
from perfdoctor.model.missing import Missing
from perfdoctor.runs.records import Rows
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.batch_rows import TRAINING_PROCESS
from perfdoctor.wire.events.loaders import (
    DEFAULT_PREFETCH,
    EpochEndEvent,
    EpochEvent,
    LoaderEvent,
    WorkerEvent,
    WorkersEndEvent,
)

QUANTILES = 32  # enough to show one dear batch in thirty

Loaders = Container[int | None]  # the numbers of one loader that is made again and again, or of several


@fact
def loader_facts(rank: RankRecords, span: MeasuredSpan, steps: Steps) -> LoaderFacts | Missing | None:
    """The facts of the training loader, or None where the script has none, or loads once for all steps."""
    if steps.fed_once:
        return None
    loaders = trained_on(rank, span)
    if not loaders:
        return None
    epochs = _epochs(rank, loaders, span)
    begin_ns = min((entry.begin_ns for entry in epochs), default=0)
    rows = rows_of(rank.loader, loaders, span, begin_ns)
    if rows is None or not len(rows):
        return Missing("no batch of a DataLoader was recorded")
    made = [entry for entry in made_loaders(rank) if entry.id in loaders]
    return _facts(made, rows, epochs, rank, span, steps)


def _facts(
    made: Sequence[LoaderEvent],
    rows: Rows,
    epochs: Sequence[EpochEvent],
    rank: RankRecords,
    span: MeasuredSpan,
    steps: Steps,
) -> LoaderFacts:
    event, loaders = made[0], frozenset(entry.id for entry in made)
    built = len({entry.loader for entry in epochs}) or len(made)
    anew, total = 1 < built == len(epochs), float(rows["batches"].sum())
    batches, costs = rows["batches"].astype(np.float64), (rows["read_ns"] + rows["collate_ns"]) / 1e9
    p50_s, p95_s = quantiles(costs / batches, batches, (0.5, 0.95))

    def mean_s(*columns: str) -> float:
        return max(0.0, float(sum(rows[column].sum() for column in columns)) / 1e9 / total)

    starts_ns = [entry.startup_ns + entry.first_wait_ns for entry in epochs]
    others, beside = {entry.loader for entry in rank.of(EpochEvent)} - loaders, fed_beside(rank, span)
    restarting = _restarting(rank, loaders, span)
    return LoaderFacts(
        num_workers=event.num_workers,
        batch_size=event.batch_size,
        at=location(user_made(rank)[event.id].at),
        dataset=event.dataset or "unknown",
        iterable=event.iterable,
        persistent_workers=event.persistent_workers and not anew,  # they end with it
        prefetch_factor=event.prefetch_factor,
        pin_memory=event.pin_memory,
        start_method=event.start_method,
        batches=round(total),
        batch_s=mean_s("read_ns", "collate_ns"),
        batch_cpu_s=min(mean_s("read_cpu_ns", "collate_cpu_ns"), mean_s("read_ns", "collate_ns")),
        batch_p50_s=p50_s,
        batch_p95_s=p95_s,
        collate_s=mean_s("collate_ns"),
        collate_cpu_s=mean_s("collate_cpu_ns"),
        batch_bytes=_batch_bytes(rows, total),
        file_bytes=_file_bytes(rows),
        batches_per_step=_per_step(_delivered(rank, loaders, epochs, steps), total, event, span),
        epochs=len(epochs),
        epoch_start_s=_later_mean(starts_ns) / 1e9 if starts_ns else None,
        epoch_end_s=_epoch_end_s(rank, loaders),
        epoch_slowed_s=slowed_s(epochs, steps),
        steady_wait_s=_steady_wait_s(_ends(rank, epochs)),
        worker_start_s=_worker_start_s(rank, loaders),
        loaders=len(made_loaders(rank)),
        built=built,
        anew=anew,
        epoch_wait_s=sum(starts_ns) / 1e9 / span.steps,
        other_wait_s=wait_s(rank, others - beside, span),
        beside_wait_s=wait_s(rank, beside, span),
        others_restart_s=min(sum(each.per_step_s for each in restarting), span.seconds / span.steps),
        restarting=restarting,
        others_cpu_s=_others_cpu_s(rank, others, span),
        spread=_spread(costs / batches, batches),
        samples=int(rows["samples"].sum()),
        items=max((entry.items or 0 for entry in epochs), default=0) or None,
        items_in_all=_items_in_all(rank, epochs),
    )


def _batch_bytes(rows: Rows, batches: float) -> int | None:
    size = float(rows["bytes"].sum()) / batches
    return round(size) if size > 0 else None


def _later_mean(starts: Sequence[int]) -> float:
    """The first epoch's start also pays for what is done once: the later ones tell, where there are any."""
    told = starts[1:] or starts
    return sum(told) / len(told)


def _items_in_all(rank: RankRecords, epochs: Sequence[EpochEvent]) -> int | None:
    """The items of all data sets that the epochs were of; None where there is one, or they may be one.

    Each of several loaders may hold something else that no item depends on. That they do not is shown by two
    of them that hold the same, or by epochs that each of them has again.
    """
    sets, items = data_sets(rank), Counter[object]()
    for entry in epochs:
        data_set = sets.get(entry.loader or 0)
        items[data_set] = max(items[data_set], entry.items or 0)
    told = len(items) < len({entry.loader for entry in epochs}) or 2 * len(items) <= len(epochs)
    return items.total() or None if told and len(items) > 1 else None


def _epoch_end_s(rank: RankRecords, loaders: Loaders) -> float | None:
    """Mean wait for an epoch's end, when workers that do not live on stop."""
    waits = [
        number(entry.end_wait_ns)
        for entry in rank.of(EpochEndEvent)
        if entry.loader in loaders and entry.end_wait_ns is not None
    ]
    waits += _stops_ns(rank, loaders)
    return sum(waits) / len(waits) / 1e9 if waits else None


def _stops_ns(rank: RankRecords, loaders: Loaders) -> list[float]:
    """What stopping the workers of each epoch took that the loop had left before its end."""
    started_by = {pid: entry.loader for entry in rank.of(EpochEvent) for pid in entry.workers or ()}
    return [
        number(entry.wait_ns)
        for entry in rank.of(WorkersEndEvent)
        if entry.workers and started_by.get(entry.workers[0]) in loaders
    ]


def _restarting(rank: RankRecords, loaders: Loaders, span: MeasuredSpan) -> tuple[RestartingLoader, ...]:
    """Other loaders (validation's) whose workers start again, costliest first; one line's count as one."""
    lines: dict[tuple[Location | None, int], set[int]] = defaultdict(set)
    living_on, own = set(), user_made(rank)
    for event in made_loaders(rank):
        if event.id not in loaders and event.num_workers:
            lines[location(own[event.id].at), event.num_workers].add(event.id)
            living_on.update([event.id] if event.persistent_workers else [])
    found = []
    for (at, num_workers), made in lines.items():
        epochs = _epochs(rank, made, span)
        used = {entry.loader for entry in epochs}
        anew = len(used) == len(epochs)  # for each pass: its workers end with it
        again = len(epochs) - (1 if anew else len(used))
        if again < 1 or (used & living_on and not anew):
            continue
        batch_ns = _batch_ns(rows_of(rank.loader, made, span))
        starts_ns = [entry.startup_ns + max(0.0, entry.first_wait_ns - batch_ns) for entry in epochs]
        each_s = sum(starts_ns) / len(starts_ns) / 1e9 + (_epoch_end_s(rank, made) or 0.0)
        all_s = min(each_s * again, span.seconds)
        per_step_s = all_s / span.steps
        passes, anew = len(epochs), anew and len(used) > 1
        found.append(RestartingLoader(num_workers, at, passes, each_s, per_step_s, len(used), anew))
    return tuple(sorted(found, key=lambda each: -each.per_step_s))


def _others_cpu_s(rank: RankRecords, others: Set[int | None], span: MeasuredSpan) -> float:
    """CPU seconds per step that the training process itself prepares batches of other loaders for."""
    rows = rows_of(rank.loader, [each for each in others if each is not None], span, span.begin_ns)
    if rows is None:
        return 0.0
    here = rows[rows["worker"] == TRAINING_PROCESS]
    return float(here["read_cpu_ns"].sum() + here["collate_cpu_ns"].sum()) / 1e9 / span.steps


def _batch_ns(rows: Rows | None) -> float:
    """What a batch costs who prepares it; infinity where none was seen."""
    if rows is None or not len(rows):
        return math.inf
    return float((rows["read_ns"] + rows["collate_ns"]).sum() / rows["batches"].sum())


def _file_bytes(rows: Rows) -> int | None:
    """What read calls return while a batch is made: the median, as the first may read an archive."""
    if "file_bytes" not in (rows.dtype.names or ()):  # a run from before they were counted
        return None
    batches = rows["batches"].astype(np.float64)
    (median,) = quantiles(rows["file_bytes"] / batches, batches, (0.5,))
    return round(median) or None


def _spread(costs: Floats, weight: Floats) -> tuple[float, ...]:
    """Batch costs over their mean, at even quantiles: what a queue of batches is simulated with."""
    places = tuple((index + 0.5) / QUANTILES for index in range(QUANTILES))
    values = quantiles(costs, weight, places)
    mean = sum(values) / QUANTILES
    return tuple(cost / mean for cost in values) if mean > 0 else (1.0,)


def _epochs(rank: RankRecords, loaders: Loaders, span: MeasuredSpan) -> list[EpochEvent]:
    """Those up to the last step, without what was over before the first: a look at the data, warm-up."""
    over = {
        (entry.loader, entry.index)
        for entry in rank.of(EpochEndEvent)
        if 0 < when_left_ns(entry) < span.begin_ns
    }
    return [
        entry
        for entry in rank.of(EpochEvent)
        if entry.loader in loaders
        and entry.begin_ns <= span.end_ns
        and (entry.loader, entry.index) not in over
    ]


def _ends(rank: RankRecords, epochs: Sequence[EpochEvent]) -> list[EpochEndEvent]:
    begun = {(entry.loader, entry.index) for entry in epochs}
    return [entry for entry in rank.of(EpochEndEvent) if (entry.loader, entry.index) in begun]


def _delivered(
    rank: RankRecords, loaders: Loaders, epochs: Sequence[EpochEvent], steps: Steps
) -> float | None:
    """Batches handed to the loop; None where neither the ends of all epochs nor the steps tell."""
    ended = _ends(rank, epochs)
    if len(ended) == len(epochs):
        return sum(entry.batches for entry in ended) or None
    # Steps know how many batches they were given, but not by which loader.
    if all(entry.loader in loaders for entry in rank.of(EpochEvent)):
        return float(steps.counts["batches"].sum()) or None
    return None


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


def _steady_wait_s(ended: Sequence[EpochEndEvent]) -> float | None:
    """Mean wait for a batch that was not an epoch's first."""
    later = sum(max(0.0, entry.batches - 1) for entry in ended)
    return sum(entry.wait_ns for entry in ended) / later / 1e9 if later else None


def wait_s(rank: RankRecords, loaders: Loaders, span: MeasuredSpan) -> float:
    """Seconds per step that the loop waited for these loaders, as far as whole epochs were seen."""
    waited_ns = sum(
        entry.startup_ns + entry.first_wait_ns
        for entry in rank.of(EpochEvent)
        if entry.loader in loaders and span.holds(entry.t_ns)
    ) + sum(
        entry.wait_ns + (entry.end_wait_ns or 0)
        for entry in rank.of(EpochEndEvent)
        if entry.loader in loaders and span.holds(entry.t_ns)
    )
    return min(waited_ns / 1e9, span.seconds) / span.steps


def _worker_start_s(rank: RankRecords, loaders: Loaders) -> float | None:
    """Mean time from the start of an epoch's iterator to the first fetch of the workers it started."""
    begins = {
        pid: entry.begin_ns
        for entry in rank.of(EpochEvent)
        if entry.loader in loaders
        for pid in entry.workers or ()
    }
    starts = [
        entry.first_fetch_ns - begins[entry.pid]
        for entry in rank.of(WorkerEvent)
        if entry.first_fetch_ns and entry.pid in begins
    ]
    return max(0.0, sum(starts) / len(starts) / 1e9) if starts else None
