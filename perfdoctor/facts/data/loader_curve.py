"""Turns a measurement of a DataLoader alone into a curve over numbers of workers, and finds its knee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev

from perfdoctor.facts.data.loader_notes import (
    code,
    failures,
    headline,
    is_unclear,
    notes,
    reasons,
    why_nothing,
)
from perfdoctor.facts.decode import Json, as_count, location, number, positive, sanitized
from perfdoctor.facts.user_source.parse import LineReader, Sources
from perfdoctor.model.loader_curve import BatchCost, LoaderCurve, Measured, Rate, WorkerSetting, counted
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Note
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.wire.events.loaders import DEFAULT_PREFETCH

WORTHWHILE = 0.05  # a setting this close to the best is as good: the step model's knee means the same
MATTERS = 0.10  # cold batches this much slower than warm ones: reading decides, not preparing
HIGHEST_NOISE = 0.15  # a spread above this is a measurement to repeat, not a reason to call settings equal
KINDS = ("warm", "cold", "synthetic")


def curve(records: RunRecords, source: LineReader) -> LoaderCurve:
    """The curve of a measurement's records; without settings where nothing was measured, with the reasons."""
    records = sanitized(records)
    rank = _measuring(records)
    begun = rank.of("loading")[-1:] if rank is not None else []
    run, host = records.run, records.run.get("host")
    command, cwd = run.get("command"), run.get("cwd")
    cores = positive(host.get("usable_cores")) if isinstance(host, dict) else None
    summary = LoaderCurve(
        path=str(records.path),
        cwd=cwd if isinstance(cwd, str) else "",
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        cores=cores or 1.0,
        ranks=(as_count(begun[0].get("ranks")) or 1) if begun else 1,
        outcome=_outcome(rank),
        exit_code=as_count(run.get("exit_code")),
        loader=_loader(begun[0], rank, source) if begun and rank is not None else None,
    )
    loader = summary.loader
    if rank is None or loader is None:
        why, hint = why_nothing(records)
        return replace(summary, notes=(why,), hint=hint)
    settings = _settings(rank, loader.prefetch or DEFAULT_PREFETCH, summary.cores)
    measured = tuple(setting for setting in settings if setting.warm or setting.cold)
    if not measured:
        said = tuple(failures(rank, summary.cwd)) or (Note("no-batch-measured"),)
        return replace(summary, notes=said, hint=_hint(loader))
    summary = replace(summary, settings=measured, cost=_cost(rank, measured))
    judged, rates = _rates(_honest(rank, measured))
    best = max(rates, key=lambda workers: rates[workers].batches_per_s)
    # Where no workers were measured, nothing speaks against the script's own.
    enough = knee(rates, loader.workers) if any(one.workers for one in measured) else loader.workers
    summary = replace(summary, judged=judged, best=best, knee=enough)
    return replace(
        summary,
        notes=tuple(notes(rank, summary)),
        headline=headline(summary),
        because=tuple(reasons(summary)),
        code=code(summary),
        unclear=is_unclear(summary),
    )


def _measuring(records: RunRecords) -> RankRecords | None:
    """The process that measured; else one that at least met a loader."""
    ranks = list(records.ranks.values())
    return next((rank for rank in ranks if rank.of("loading")), ranks[0] if ranks else None)


def _outcome(rank: RankRecords | None) -> str:
    ended = rank.of("loading_end") if rank is not None else []
    return str(ended[-1].get("outcome")) if ended else "cut off"


def _loader(begun: Json, rank: RankRecords, source: LineReader) -> Measured | None:
    made = {number: entry for entry in rank.of("loader") if (number := as_count(entry.get("id"))) is not None}
    chosen = as_count(begun.get("id"))
    event = None if chosen is None else made.get(chosen)
    if chosen is None or event is None:
        return None
    at = _place(begun, made, source)
    return Measured(
        id=chosen,
        at=at,
        dataset=str(event.get("dataset") or "unknown"),
        iterable=bool(event.get("iterable")),
        batch_size=as_count(event.get("batch_size")),
        workers=as_count(event.get("num_workers")) or 0,
        prefetch=as_count(event.get("prefetch_factor")),
        persistent=bool(event.get("persistent_workers")),
        pin_memory=bool(event.get("pin_memory")),
        start_method=event.get("start_method"),
        library=begun.get("library"),
        built=as_count(begun.get("built")) or len(made),
    )


def _place(begun: Json, made: Mapping[int, Json], source: LineReader) -> Location | None:
    """Where the user builds the loader: libraries build another one from it, over the same dataset."""
    same = begun.get("same_dataset")
    others = filter(None, map(as_count, same if isinstance(same, list) else []))
    numbers = [as_count(begun.get("id")) or 0, *sorted(others)]
    places = [at for at in (location(made.get(key, {}).get("at")) for key in numbers) if at is not None]
    shown = [Sources(source).at(at.file, at.line, at.function) for at in places]
    named = [at for at in shown if "DataLoader" in (at.statement or "")]
    return next(iter([*named, *shown]), None)


def _settings(rank: RankRecords, prefetch: int, cores: float) -> list[WorkerSetting]:
    """Every setting of which anything is known, ascending."""
    settings: dict[int, WorkerSetting] = {}

    def add(entry: Json, **known: object) -> None:
        workers = as_count(entry.get("workers"))
        if workers is not None:
            settings[workers] = replace(settings.get(workers, WorkerSetting(workers)), **known)  # type: ignore[arg-type]

    for entry in rank.of("loading_start"):
        add(entry, first_batch_s=positive(entry.get("first_batch_s")))
    for entry in rank.of("loading_memory"):
        add(entry, worker_bytes=positive(entry.get("worker_bytes")))
    for entry in rank.of("loading_stretch"):
        rate = _rate(entry, cores)
        if rate is not None and entry.get("kind") in KINDS:
            waiting = (as_count(entry.get("workers")) or 0) * prefetch * number(entry.get("bytes"))
            add(entry, **{str(entry["kind"]): rate}, shared_bytes=waiting)
    return [settings[workers] for workers in sorted(settings)]


def _rate(entry: Json, cores: float) -> Rate | None:
    batches, seconds = as_count(entry.get("batches")), positive(entry.get("seconds"))
    if not batches or seconds is None or not math.isfinite(batches / seconds):
        return None
    blocks = entry.get("block_s")
    lengths = [value for value in map(positive, blocks if isinstance(blocks, list) else []) if value]
    noise = stdev(lengths) / math.sqrt(len(lengths)) / mean(lengths) if len(lengths) > 1 else 0.0
    cpu_s = number(entry.get("cpu_s")) + number(entry.get("workers_cpu_s"))
    waited_s = number(entry.get("delay_s")) + number(entry.get("workers_delay_s"))
    # What was asked for, and could have been had of the usable cores, but was not.
    lost_s = min(cpu_s + waited_s, cores * seconds) - cpu_s
    contention = min(1.0, max(0.0, lost_s / seconds / max(1, as_count(entry.get("workers")) or 0)))
    return Rate(batches, seconds, noise, number(entry.get("samples")), cpu_s / batches, contention)


def _honest(rank: RankRecords, settings: Sequence[WorkerSetting]) -> list[WorkerSetting]:
    """The settings to choose from: workers that all give the same samples do not load faster."""
    repeats = bool(rank.of("loading_repeats"))
    return [one for one in settings if one.workers <= 1 or not repeats] or list(settings)


def _rates(settings: Sequence[WorkerSetting]) -> tuple[str, dict[int, Rate]]:
    """The kind of rates that count, and those rates by the number of workers.

    Cold batches count where they are clearly slower: the first epoch reads so, and all of them do where the
    data is larger than the memory that is left to keep it in. Settings that no cold samples were left for are
    then no choice, unless one setting alone had any: there would be none.
    """
    warm = [one for one in settings if one.warm is not None]
    slower = [
        one.cold.batches_per_s < (1 - MATTERS) * one.warm.batches_per_s
        for one in warm
        if one.warm is not None and one.cold is not None
    ]
    judged = "cold" if all(slower) and len(slower) >= min(2, len(warm)) else "warm"
    return judged, {one.workers: rate for one in settings if (rate := counted(one, judged)) is not None}


def knee(rates: Mapping[int, Rate], now: int) -> int:
    """The smallest number of workers that comes within WORTHWHILE of the best, or within what is noise.

    0 only for a script that has no workers now and would not load faster with them: a worker prepares batches
    while the script computes, which loading alone does not show.
    """
    best = max(rates.values(), key=lambda rate: rate.batches_per_s)

    def is_as_good(rate: Rate, than: Rate) -> bool:
        doubt = min(HIGHEST_NOISE, math.hypot(rate.noise, than.noise))
        return rate.batches_per_s >= (1 - max(WORTHWHILE, doubt)) * than.batches_per_s

    with_workers = {workers: rate for workers, rate in rates.items() if workers}
    if not with_workers or (not now and 0 in rates and is_as_good(rates[0], best)):
        return 0
    best = max(with_workers.values(), key=lambda rate: rate.batches_per_s)
    return min(workers for workers, rate in with_workers.items() if is_as_good(rate, best))


def _cost(rank: RankRecords, settings: Sequence[WorkerSetting]) -> BatchCost | None:
    """What a batch costs the script's own process, the first time if that was slower."""
    alone = [
        entry for entry in rank.of("loading_stretch") if entry.get("workers") == 0 and "collate_s" in entry
    ]
    alone = [entry for entry in alone if as_count(entry.get("batches")) and positive(entry.get("seconds"))]
    if not alone:
        return None
    entry = max(alone, key=lambda entry: number(entry["seconds"]) / int(entry["batches"]))
    batches, collate_s, draw_s = (number(entry.get(key)) for key in ("batches", "collate_s", "draw_s"))
    read_s = max(0.0, number(entry["seconds"]) - collate_s - draw_s)
    apart_s = number(entry.get("collate_cpu_s")) + number(entry.get("draw_cpu_s"))
    worked_s = number(entry.get("cpu_s")) - apart_s + number(entry.get("delay_s"))
    one = next((setting.synthetic for setting in settings if setting.workers == 1), None)
    return BatchCost(
        read_s=read_s / batches,
        collate_s=collate_s / batches,
        hand_over_s=max(0.0, 1 / one.batches_per_s - collate_s / batches) if one else None,
        blocked=min(1.0, max(0.0, 1 - worked_s / read_s)) if read_s > 0 else 0.0,
        samples=number(entry.get("samples")),
        bytes=number(entry.get("bytes")),
        draw_s=draw_s / batches,
    )


def _hint(loader: Measured) -> str | None:
    return "measure another DataLoader of the script with --number N" if loader.built > 1 else None
