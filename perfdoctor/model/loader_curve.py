"""A DataLoader measured alone: what it delivers with each number of workers, and what follows from that."""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Note, Remark


@dataclass(frozen=True)
class Rate:
    """Batches a second over one stretch."""

    batches: int
    seconds: float
    noise: float  # standard error of the mean batch, as a share of it
    samples: float  # in a batch
    cpu_s: float  # of a batch, in all processes together
    contention: float = 0.0  # share of a worker's time that other programs had its core

    @property
    def batches_per_s(self) -> float:
        """Batches a second."""
        return self.batches / self.seconds

    @property
    def samples_per_s(self) -> float:
        """Samples a second."""
        return self.samples * self.batches_per_s


@dataclass(frozen=True)
class WorkerSetting:
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
    draw_s: float = 0.0  # of the sampler for its indices, in the training process whatever the workers


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
    settings: tuple[WorkerSetting, ...] = ()  # ascending; those with a rate
    cost: BatchCost | None = None
    judged: str = "warm"  # which rates the knee is taken from
    knee: int = 0
    best: int = 0
    notes: tuple[Remark, ...] = ()
    hint: str | None = None
    headline: str = ""  # the result as a sentence without its full stop
    because: tuple[Note, ...] = ()
    code: str | None = None  # the options to give; None where there is nothing to change
    unclear: bool = False  # the figures are so doubtful that what they say could be chance

    def rate(self, setting: WorkerSetting) -> Rate | None:
        """The rate of a setting that counts."""
        return counted(setting, self.judged)

    @property
    def spread(self) -> float:
        """The doubt about the least certain of the rates that count, as a share of it."""
        return max((rate.noise for one in self.settings if (rate := self.rate(one))), default=0.0)

    def at(self, workers: int) -> WorkerSetting | None:
        """The setting with so many workers, if it was measured."""
        return next((setting for setting in self.settings if setting.workers == workers), None)

    @property
    def contention(self) -> float:
        """The share of its time that a worker lost to other programs, at most."""
        return max((rate.contention for one in self.settings if (rate := self.rate(one))), default=0.0)

    @property
    def now(self) -> WorkerSetting | None:
        """The script's own setting."""
        return self.at(self.loader.workers) if self.loader is not None else None

    @property
    def speedup(self) -> float | None:
        """How many times as fast the knee loads as the script's own setting."""
        now = self.rate(self.now) if self.now is not None else None
        then = self.rate(self.at(self.knee) or WorkerSetting(0))
        return then.batches_per_s / now.batches_per_s if now and then else None


def counted(setting: WorkerSetting, judged: str) -> Rate | None:
    """The rate of a setting that counts.

    Reading again is never slower than reading first. Where it looks so, something else was in the way: the
    faster of the two counts, and how far they are apart is doubt.
    """
    warm, cold = setting.warm, setting.cold
    if judged == "cold" or warm is None or cold is None or cold.batches_per_s <= warm.batches_per_s:
        return cold if judged == "cold" else warm
    apart = 1 - warm.batches_per_s / cold.batches_per_s
    return replace(cold, noise=max(cold.noise, apart / 2))
