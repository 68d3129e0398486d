"""What was measured of a DataLoader alone becomes a curve over numbers of workers, and its knee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

from perfdoctor.analysis.loadernotes import failures, notes, why_nothing
from perfdoctor.analysis.records import Json, location, number, positive, whole
from perfdoctor.analysis.source import Source
from perfdoctor.model import Location
from perfdoctor.recorded import RankRecords, RunRecords

WORTHWHILE = 0.05  # a setting this close to the best is as good: the step model's knee means the same
MATTERS = 0.10  # cold batches this much slower than warm ones: reading decides, not preparing
HIGHEST_NOISE = 0.15  # a spread above this is a measurement to repeat, not a reason to call settings equal
PREFETCH = 2  # torch's own, where the script names none
KINDS = ("warm", "cold", "synthetic")


@dataclass(frozen=True)
class Rate:
    """Batches a second over one stretch."""

    batches: int
    seconds: float
    noise: float  # standard error of the mean batch, as a share of it
    samples: float  # in a batch
    cpu_s: float  # of a batch, in all processes together
    crowded: float = 0.0  # share of a worker's time that other programs had its core

    @property
    def batches_per_s(self) -> float:
        """Batches a second."""
        return self.batches / self.seconds

    @property
    def samples_per_s(self) -> float:
        """Samples a second."""
        return self.samples * self.batches_per_s


@dataclass(frozen=True)
class Setting:
    """One number of workers: what it delivers and what it takes."""

    workers: int
    warm: Rate | None = None  # samples that were read before in this run
    cold: Rate | None = None  # samples read for the first time in this run
    synthetic: Rate | None = None  # samples that are in memory: collating and handing over alone
    first_batch_s: float | None = None  # from the start of the workers
    worker_bytes: float | None = None  # private memory of one worker
    shared_bytes: float = 0.0  # of the batches that wait in shared memory

    @property
    def memory_bytes(self) -> float:
        """What the setting takes beyond the training process itself."""
        return self.workers * (self.worker_bytes or 0.0) + self.shared_bytes


@dataclass(frozen=True)
class BatchCost:
    """What one batch costs where nothing runs beside it; seconds in the process that makes it."""

    read_s: float
    collate_s: float
    hand_over_s: float | None  # from a worker; None where it was not measured
    blocked: float  # share of reading that neither computed nor waited for a core: disk, network, locks
    samples: float
    bytes: float


@dataclass(frozen=True)
class Measured:
    """The loader that was measured, as the script builds it."""

    id: int
    at: Location | None
    dataset: str
    iterable: bool
    batch_size: int | None
    workers: int
    prefetch: int | None
    persistent: bool
    pin_memory: bool
    start_method: str | None
    library: str | None  # that builds it from options of its own
    built: int  # DataLoaders that the script had built by then


@dataclass(frozen=True)
class LoaderCurve:
    """The curve of one loader."""

    path: str
    cwd: str
    command: tuple[str, ...]
    cores: float
    ranks: int
    outcome: str  # whole, interrupted, failed or cut off
    exit_code: int | None
    loader: Measured | None
    settings: tuple[Setting, ...] = ()  # ascending; those with a rate
    cost: BatchCost | None = None
    judged: str = "warm"  # which rates the knee is taken from
    knee: int = 0
    best: int = 0
    notes: tuple[str, ...] = ()
    hint: str | None = None

    def rate(self, setting: Setting) -> Rate | None:
        """The rate of a setting that counts."""
        return counted(setting, self.judged)

    @property
    def spread(self) -> float:
        """The doubt about the least certain of the rates that count, as a share of it."""
        return max((rate.noise for one in self.settings if (rate := self.rate(one))), default=0.0)

    def at(self, workers: int) -> Setting | None:
        """The setting with so many workers, if it was measured."""
        return next((setting for setting in self.settings if setting.workers == workers), None)

    @property
    def crowded(self) -> float:
        """The share of its time that a worker lost to other programs, at most."""
        return max((rate.crowded for one in self.settings if (rate := self.rate(one))), default=0.0)

    @property
    def now(self) -> Setting | None:
        """The script's own setting."""
        return self.at(self.loader.workers) if self.loader is not None else None

    @property
    def speedup(self) -> float | None:
        """How many times as fast the knee loads as the script's own setting."""
        now = self.rate(self.now) if self.now is not None else None
        then = self.rate(self.at(self.knee) or Setting(0))
        return then.batches_per_s / now.batches_per_s if now and then else None


def counted(setting: Setting, judged: str) -> Rate | None:
    """The rate of a setting that counts.

    Reading again is never slower than reading first. Where it looks so, something else was in the way: the
    faster of the two counts, and how far they are apart is doubt.
    """
    warm, cold = setting.warm, setting.cold
    if judged == "cold" or warm is None or cold is None or cold.batches_per_s <= warm.batches_per_s:
        return cold if judged == "cold" else warm
    apart = 1 - warm.batches_per_s / cold.batches_per_s
    return replace(cold, noise=max(cold.noise, apart / 2))


def curve(records: RunRecords, source: Source) -> LoaderCurve:
    """The curve of a measurement's records; without settings where nothing was measured, with the reasons."""
    own = _measuring(records)
    begun = own.of("loading")[-1:] if own is not None else []
    run, host = records.run, records.run.get("host")
    command, cwd = run.get("command"), run.get("cwd")
    cores = positive(host.get("usable_cores")) if isinstance(host, dict) else None
    found = LoaderCurve(
        path=str(records.path),
        cwd=cwd if isinstance(cwd, str) else "",
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        cores=cores or 1.0,
        ranks=(whole(begun[0].get("ranks")) or 1) if begun else 1,
        outcome=_outcome(own),
        exit_code=whole(run.get("exit_code")),
        loader=_loader(begun[0], own, source) if begun and own is not None else None,
    )
    loader = found.loader
    if own is None or loader is None:
        sentence, hint = why_nothing(records)
        return replace(found, notes=(sentence,), hint=hint)
    settings = _settings(own, loader.prefetch or PREFETCH, found.cores)
    measured = tuple(setting for setting in settings if setting.warm or setting.cold)
    if not measured:
        said = tuple(failures(own, found.cwd)) or ("no batch was measured",)
        return replace(found, notes=said, hint=_hint(loader))
    found = replace(found, settings=measured, cost=_cost(own, measured))
    judged, rates = _rates(_honest(own, measured))
    best = max(rates, key=lambda workers: rates[workers].batches_per_s)
    found = replace(found, judged=judged, best=best, knee=knee(rates, loader.workers))
    return replace(found, notes=tuple(notes(own, found)))


def _measuring(records: RunRecords) -> RankRecords | None:
    """The process that measured; else one that at least met a loader."""
    ranks = list(records.ranks.values())
    return next((own for own in ranks if own.of("loading")), ranks[0] if ranks else None)


def _outcome(own: RankRecords | None) -> str:
    ended = own.of("loading_end") if own is not None else []
    return str(ended[-1].get("outcome")) if ended else "cut off"


def _loader(begun: Json, own: RankRecords, source: Source) -> Measured | None:
    made = {entry.get("id"): entry for entry in own.of("loader")}
    event = made.get(begun.get("id"))
    if event is None:
        return None
    at = _place(begun, made, source)
    return Measured(
        id=int(event["id"]),
        at=at,
        dataset=str(event.get("dataset") or "unknown"),
        iterable=bool(event.get("iterable")),
        batch_size=whole(event.get("batch_size")),
        workers=whole(event.get("num_workers")) or 0,
        prefetch=whole(event.get("prefetch_factor")),
        persistent=bool(event.get("persistent_workers")),
        pin_memory=bool(event.get("pin_memory")),
        start_method=event.get("start_method"),
        library=begun.get("library"),
        built=whole(begun.get("built")) or len(made),
    )


def _place(begun: Json, made: Mapping[object, Json], source: Source) -> Location | None:
    """Where the user builds the loader: libraries build another one from it, over the same dataset."""
    same = begun.get("same_dataset")
    numbers = [begun.get("id"), *sorted(same if isinstance(same, list) else [])]
    places = [at for at in (location((made.get(key) or {}).get("at")) for key in numbers) if at is not None]
    told = [replace(at, text=source(at.file, at.line)) for at in places]
    named = [at for at in told if "DataLoader" in (at.text or "")]
    return next(iter([*named, *told]), None)


def _settings(own: RankRecords, prefetch: int, cores: float) -> list[Setting]:
    """Every setting of which anything is known, ascending."""
    found: dict[int, Setting] = {}

    def add(entry: Json, **known: object) -> None:
        workers = whole(entry.get("workers"))
        if workers is not None:
            found[workers] = replace(found.get(workers, Setting(workers)), **known)  # type: ignore[arg-type]

    for entry in own.of("loading_start"):
        add(entry, first_batch_s=positive(entry.get("first_batch_s")))
    for entry in own.of("loading_memory"):
        add(entry, worker_bytes=positive(entry.get("worker_bytes")))
    for entry in own.of("loading_stretch"):
        rate = _rate(entry, cores)
        if rate is not None and entry.get("kind") in KINDS:
            waiting = (whole(entry.get("workers")) or 0) * prefetch * number(entry.get("bytes"))
            add(entry, **{str(entry["kind"]): rate}, shared_bytes=waiting)
    return [found[workers] for workers in sorted(found)]


def _rate(entry: Json, cores: float) -> Rate | None:
    batches, seconds = whole(entry.get("batches")), positive(entry.get("seconds"))
    if not batches or seconds is None:
        return None
    blocks = entry.get("block_s")
    lengths = [value for value in map(positive, blocks if isinstance(blocks, list) else []) if value]
    noise = stdev(lengths) / math.sqrt(len(lengths)) / mean(lengths) if len(lengths) > 1 else 0.0
    cpu_s = number(entry.get("cpu_s")) + number(entry.get("workers_cpu_s"))
    waited_s = number(entry.get("delay_s")) + number(entry.get("workers_delay_s"))
    # What was asked for, and could have been had of the usable cores, but was not.
    lost_s = min(cpu_s + waited_s, cores * seconds) - cpu_s
    crowded = max(0.0, lost_s / seconds / max(1, whole(entry.get("workers")) or 0))
    return Rate(batches, seconds, noise, number(entry.get("samples")), cpu_s / batches, crowded)


def _honest(own: RankRecords, settings: Sequence[Setting]) -> list[Setting]:
    """The settings to choose from: workers that all give the same samples do not load faster."""
    repeats = bool(own.of("loading_repeats"))
    return [one for one in settings if one.workers <= 1 or not repeats] or list(settings)


def _rates(settings: Sequence[Setting]) -> tuple[str, dict[int, Rate]]:
    """The kind of rates that count, and those rates by the number of workers.

    Cold batches count where they are clearly slower: the first epoch reads so, and all of them do where the
    data is larger than the memory that is left to keep it in.
    """
    warm = [one for one in settings if one.warm is not None]
    slower = [
        one.cold is not None and one.cold.batches_per_s < (1 - MATTERS) * one.warm.batches_per_s
        for one in warm
        if one.warm is not None
    ]
    judged = "cold" if all(slower) else "warm"
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


def _cost(own: RankRecords, settings: Sequence[Setting]) -> BatchCost | None:
    """What a batch costs the script's own process, the first time if that was slower."""
    alone = [
        entry for entry in own.of("loading_stretch") if entry.get("workers") == 0 and "collate_s" in entry
    ]
    alone = [entry for entry in alone if whole(entry.get("batches")) and positive(entry.get("seconds"))]
    if not alone:
        return None
    entry = max(alone, key=lambda entry: number(entry["seconds"]) / int(entry["batches"]))
    batches, collate_s = int(entry["batches"]), number(entry.get("collate_s"))
    read_s = max(0.0, number(entry["seconds"]) - collate_s)
    worked_s = number(entry.get("cpu_s")) - number(entry.get("collate_cpu_s")) + number(entry.get("delay_s"))
    one = next((setting.synthetic for setting in settings if setting.workers == 1), None)
    return BatchCost(
        read_s=read_s / batches,
        collate_s=collate_s / batches,
        hand_over_s=max(0.0, 1 / one.batches_per_s - collate_s / batches) if one else None,
        blocked=min(1.0, max(0.0, 1 - worked_s / read_s)) if read_s > 0 else 0.0,
        samples=number(entry.get("samples")),
        bytes=number(entry.get("bytes")),
    )


def _hint(loader: Measured) -> str | None:
    return "measure another DataLoader of the script with --number N" if loader.built > 1 else None
