"""Loader rows and events become LoaderFacts for the loader that was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perfdoctor.analysis.records import Json, Window, location, number, whole
from perfdoctor.analysis.steps import Floats
from perfdoctor.analysis.summary import quantiles
from perfdoctor.model import LoaderFacts
from perfdoctor.recorded import RankRecords, Rows

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


def loader_facts(records: RankRecords, window: Window) -> LoaderFacts | str | None:
    """The facts of the training loader, why they were not measured, or None where no loader was built."""
    made = _made(records)
    identity = trained_on(records, window)
    if identity is None:
        return None
    rows = _rows_of(records.loader, identity, window)
    if rows is None or not len(rows):
        return "no batch was seen being prepared"
    event = next(entry for entry in made if entry["id"] == identity)
    return _facts(event, rows, records, window, len(made))


def _facts(event: Json, rows: Rows, records: RankRecords, window: Window, loaders: int) -> LoaderFacts:
    batches = rows["batches"].astype(np.float64)
    total = float(batches.sum())
    costs = (rows["read_ns"] + rows["collate_ns"]) / 1e9
    p50_s, p95_s = quantiles(costs / batches, batches, (0.5, 0.95))

    def mean(*columns: str) -> float:
        return max(0.0, float(sum(rows[column].sum() for column in columns)) / 1e9 / total)

    epochs = _epochs(records, event["id"], window)
    starts = [number(entry.get("startup_ns")) + number(entry.get("first_wait_ns")) for entry in epochs]
    delivered = _delivered(records, event["id"], epochs)
    size = float(rows["bytes"].sum()) / total
    return LoaderFacts(
        num_workers=whole(event.get("num_workers")) or 0,
        batch_size=whole(event.get("batch_size")),
        at=location(event.get("at")),
        dataset=str(event.get("dataset") or "unknown"),
        iterable=bool(event.get("iterable")),
        persistent_workers=bool(event.get("persistent_workers")),
        prefetch_factor=whole(event.get("prefetch_factor")),
        pin_memory=bool(event.get("pin_memory")),
        start_method=event.get("start_method"),
        batches=round(total),
        batch_s=mean("read_ns", "collate_ns"),
        batch_cpu_s=min(mean("read_cpu_ns", "collate_cpu_ns"), mean("read_ns", "collate_ns")),
        batch_p50_s=p50_s,
        batch_p95_s=p95_s,
        collate_s=mean("collate_ns"),
        collate_cpu_s=mean("collate_cpu_ns"),
        batch_bytes=round(size) if size > 0 else None,
        batches_per_step=_per_step(delivered, total, event, window),
        epochs=len(epochs),
        # the first epoch's start also pays for what is done once: the later ones tell, where there are any
        epoch_start_s=sum(starts[1:] or starts) / len(starts[1:] or starts) / 1e9 if starts else None,
        epoch_end_s=_epoch_end_s(records, event["id"]),
        steady_wait_s=_steady_wait_s(records, event["id"], window),
        worker_start_s=_worker_start_s(records, event["id"]),
        loaders=loaders,
        epoch_wait_s=sum(starts) / 1e9 / window.steps,
        other_wait_s=_other_wait_s(records, event["id"], window),
        spread=_spread(costs / batches, batches),
        samples=int(rows["samples"].sum()),
        items=max((whole(entry.get("items")) or 0 for entry in epochs), default=0) or None,
    )


def _epoch_end_s(records: RankRecords, identity: int) -> float | None:
    """Mean wait for an epoch's end, when no batch is left: workers that do not live on stop then."""
    waits = [
        number(entry["end_wait_ns"])
        for entry in records.of("epoch_end")
        if entry.get("loader") == identity and entry.get("end_wait_ns") is not None
    ]
    return sum(waits) / len(waits) / 1e9 if waits else None


def _spread(costs: Floats, weight: Floats) -> tuple[float, ...]:
    """Batch costs over their mean, at even quantiles: what a queue of batches is simulated with."""
    places = tuple((index + 0.5) / QUANTILES for index in range(QUANTILES))
    found = quantiles(costs, weight, places)
    mean = sum(found) / QUANTILES
    return tuple(cost / mean for cost in found) if mean > 0 else (1.0,)


def _made(records: RankRecords) -> list[Json]:
    return [entry for entry in records.of("loader") if whole(entry.get("id")) is not None]


def trained_on(records: RankRecords, window: Window) -> int | None:
    """The loader inside whose epochs most steps ended; of several, the one whose batches cost most."""
    made = _made(records)
    ends = {entry["id"]: _steps_inside(records, entry["id"], window) for entry in made}
    costs = {entry["id"]: _cost(_rows_of(records.loader, entry["id"], window)) for entry in made}
    return max(ends, key=lambda identity: (ends[identity], costs[identity]), default=None)


def _steps_inside(records: RankRecords, identity: int, window: Window) -> int:
    finished = {
        entry.get("index"): entry for entry in records.of("epoch_end") if entry.get("loader") == identity
    }
    inside = 0
    for entry in (entry for entry in records.of("epoch") if entry.get("loader") == identity):
        begin = number(entry.get("begin_ns"))
        end = _left_ns(finished.get(entry.get("index")) or {}) or window.end_ns
        inside += int(np.count_nonzero((window.step_ends_ns > begin) & (window.step_ends_ns <= end)))
    return inside


def _left_ns(ended: Json) -> float:
    """When an epoch was over: when it gave no batch any more, or after its last one if the loop left it."""
    left = ended.get("end_wait_ns", 0) is None
    return number(ended.get("last_ns")) if left else number(ended.get("t_ns"))


def _rows_of(rows: Rows | None, identity: int, window: Window) -> Rows | None:
    """A loader's rows up to the last step. Those from before the first step fed it: they count."""
    if rows is None or not set(rows.dtype.names or ()) >= NEEDED:
        return None
    kept: Rows = rows[
        (rows["loader"] == identity) & (rows["batches"] > 0) & (rows["end_ns"] <= window.end_ns)
    ]
    return kept


def _cost(rows: Rows | None) -> float:
    return 0.0 if rows is None else float(rows["read_ns"].sum() + rows["collate_ns"].sum())


def _epochs(records: RankRecords, identity: int, window: Window) -> list[Json]:
    return [
        entry
        for entry in records.of("epoch")
        if entry.get("loader") == identity and number(entry.get("begin_ns")) <= window.end_ns
    ]


def _delivered(records: RankRecords, identity: int, epochs: Sequence[Json]) -> float | None:
    """Batches handed to the loop, where every epoch was seen to its end."""
    ended = [entry for entry in records.of("epoch_end") if entry.get("loader") == identity]
    if not epochs or len(ended) < len(epochs):
        return None
    return sum(number(entry.get("batches")) for entry in ended) or None


def _per_step(delivered: float | None, prepared: float, event: Mapping[str, Any], window: Window) -> float:
    """Batches a step takes. Workers run ahead, so batches prepared are a little more than batches used."""
    ahead = (whole(event.get("num_workers")) or 0) * (whole(event.get("prefetch_factor")) or 2)
    used = delivered if delivered is not None else max(prepared - ahead, prepared / 2)
    ratio = used / max(1.0, window.steps)
    return float(round(ratio)) if ratio >= 1 and abs(ratio - round(ratio)) < 0.1 * ratio else ratio


def _steady_wait_s(records: RankRecords, identity: int, window: Window) -> float | None:
    """Mean wait for a batch that was not an epoch's first."""
    ended = [entry for entry in records.of("epoch_end") if entry.get("loader") == identity]
    later = sum(max(0.0, number(entry.get("batches")) - 1) for entry in ended)
    return sum(number(entry.get("wait_ns")) for entry in ended) / later / 1e9 if later else None


def _other_wait_s(records: RankRecords, identity: int, window: Window) -> float:
    """Seconds per step that the loop waited for other loaders, as far as whole epochs were seen."""
    keys = {"epoch": ("startup_ns", "first_wait_ns"), "epoch_end": ("wait_ns",)}
    waited_ns = sum(
        number(entry.get(key))
        for kind, names in keys.items()
        for entry in records.of(kind)
        if entry.get("loader") != identity and window.holds(entry.get("t_ns"))
        for key in names
    )
    return min(waited_ns / 1e9, window.seconds) / window.steps


def _worker_start_s(records: RankRecords, identity: int) -> float | None:
    """Mean time from the start of an epoch's iterator to the first fetch of the workers it started."""
    begins = {
        pid: number(entry.get("begin_ns"))
        for entry in records.of("epoch")
        if entry.get("loader") == identity
        for pid in entry.get("workers") or ()
    }
    starts = [
        number(entry.get("first_fetch_ns")) - begins[entry.get("pid")]
        for entry in records.of("worker")
        if entry.get("first_fetch_ns") and entry.get("pid") in begins
    ]
    return max(0.0, sum(starts) / len(starts) / 1e9) if starts else None
