"""What is measured: phases, steps, and typed groups of facts.

Seconds are `float` and end in `_s`, bytes are `int` and end in `_bytes`, a `share` runs from 0 to 1.
A measured group that a run does not have is absent, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.interval import OF_STEPS, Interval


class Phase(str, Enum):
    """Where the training thread's time goes. Phases are exclusive and partition wall time."""

    DATA_WAIT = "data_wait"
    HOST_TO_DEVICE = "host_to_device"
    FORWARD = "forward"
    BACKWARD = "backward"
    GRAD_SYNC = "grad_sync"
    OPTIMIZER = "optimizer"
    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    OTHER = "other"


PAUSES = (Phase.VALIDATION, Phase.CHECKPOINT)  # in one piece, once in many steps


class Marker(int, Enum):
    """What closed a row of the step record, weakest first (the numbers are the file format)."""

    OPEN = 0  # a loader's iterator starts before the first step: a boundary, not a step
    CALL = 1  # an outermost module call returned
    BATCH = 2  # the batch before this one is done with
    BACKWARD = 3  # an outermost backward returned
    UPDATE = 4  # an outermost optimizer step returned
    END = 5  # the process ends: the tail


@dataclass(frozen=True)
class Location:
    """A line of the user's own code."""

    file: str
    line: int
    function: str | None = None
    text: str | None = None  # the source line, stripped
    whole: str | None = None  # of a statement that takes several lines: all of it, on one

    @property
    def statement(self) -> str | None:
        """The text of the statement that the line is a part of: what is judged, and repeated in code."""
        return self.whole or self.text

    @property
    def file_name(self) -> str:
        """The name of the file without its folders, as it is spoken of."""
        return re.split(r"[/\\]", self.file)[-1]


# ---------------------------------------------------------------- facts: measured, in groups


@dataclass(frozen=True)
class RunFacts:
    """What was run, on what, and how it ended."""

    id: str
    command: tuple[str, ...]
    exit_code: int | None  # negative: ended by that signal; None: not known
    ranks: int
    device: str  # "cpu", or the accelerator's name
    duration_s: float
    cwd: str = ""
    python: str | None = None
    torch: str | None = None
    outcome: str = "ok"  # ok | failed | signalled | stopped | not_started | running | lost
    trainer: str | None = None  # the library whose options make the loader and the optimizer: transformers

    @property
    def on_device(self) -> bool:
        """Whether an accelerator trained."""
        return self.device != "cpu"

    @property
    def was_to_go_on(self) -> bool:
        """Whether its training was to go on when something else ended it, or goes on."""
        return self.outcome in {"stopped", "signalled", "running"}


@dataclass(frozen=True)
class StepFacts:
    """The step: how many, how long, and its phases, between the first step and the last.

    `seconds` holds the mean seconds per step of each phase; they add up to `mean_s`.
    """

    count: int
    marker: Marker
    mean_s: float
    median_s: float
    p95_s: float
    seconds: Mapping[Phase, float]
    wall_s: float  # first step's begin to last step's end, less what profiler windows added
    startup_s: float  # process start to the first step's begin
    tail_s: float | None  # last step's end to the end of the process
    samples_per_s: float | None = None
    updates_per_step: float = 1.0
    backwards_per_step: float = 1.0
    skipped_updates: int = 0
    process_cpu_s: float | None = None  # CPU seconds of the whole process per step
    first_loss: float | None = None
    last_loss: float | None = None
    drift: float = 0.0  # spread of block means over their mean: 0 = steady
    first_longer_s: float = 0.0  # seconds the first step trains beyond the median one: compiling, warm-up
    contention_s: float = 0.0  # seconds per step by which loader workers on the same cores slow training

    @property
    def usual_s(self) -> float:
        """The mean without what only the first step takes."""
        return self.mean_s - self.first_longer_s / max(1, self.count)

    def share(self, phase: Phase) -> float:
        """Share of wall time that `phase` takes."""
        return self.seconds.get(phase, 0.0) / self.mean_s if self.mean_s else 0.0

    @property
    def data_stall(self) -> float:
        """Share of wall time lost to batches: waited for, or taken from training by who prepares them."""
        return min(
            1.0, self.share(Phase.DATA_WAIT) + (self.contention_s / self.mean_s if self.mean_s else 0.0)
        )


AHEAD = 0.5  # of the time that there is for a batch


@dataclass(frozen=True)
class RestartingLoader:
    """Another loader than the training one, such as validation's, whose workers start again for each pass."""

    num_workers: int
    at: Location | None  # the `DataLoader(...)` call
    passes: int
    each_s: float  # what starting its workers and stopping them takes, mean of a pass
    per_step_s: float  # the same in seconds per step, without the first start
    built: int = 1  # how many loaders the line made
    anew: bool = False  # one for each pass: its workers end with it, however they are set


@dataclass(frozen=True)
class LoaderFacts:
    """The training DataLoader (the one that delivered most batches that were trained on).

    One that the same line makes again, for each epoch or each fold, is one loader.
    """

    num_workers: int
    batch_size: int | None
    at: Location | None  # the `DataLoader(...)` call
    dataset: str  # "module.Class"
    iterable: bool
    persistent_workers: bool  # they live on from epoch to epoch; not those of a loader made for each epoch
    prefetch_factor: int | None
    pin_memory: bool
    start_method: str | None
    batches: int  # batches prepared while watched
    batch_s: float  # wall seconds one batch costs who prepares it: read + transform + collate
    batch_cpu_s: float
    batch_p50_s: float
    batch_p95_s: float
    collate_s: float
    collate_cpu_s: float
    batch_bytes: int | None
    batches_per_step: float
    epochs: int  # iterators started
    epoch_start_s: float | None  # mean wait at an epoch's start: iterator start-up + first batch
    steady_wait_s: float | None  # mean wait for a later batch
    worker_start_s: float | None  # mean time from a worker's birth to its first fetch
    loaders: int = 1  # how many DataLoaders the script built
    built: int = 1  # DataLoaders of its line, counted here as one
    anew: bool = False  # one for each epoch, not one for each fold or task that epochs go through again
    epoch_wait_s: float = 0.0  # waits at this loader's epoch starts, seconds per step
    other_wait_s: float = 0.0  # waits for loaders that no step is fed by (validation), seconds per step
    beside_wait_s: float = 0.0  # waits for others that steps are fed by as well (`zip`), seconds per step
    samples: int = 0  # prepared while watched
    items: int | None = None  # in the dataset, where it is one that can be indexed
    epoch_end_s: float | None = None  # mean wait at an epoch's end, when workers that do not live on stop
    epoch_slowed_s: float = 0.0  # seconds that a step trains longer if workers start again in it
    spread: tuple[float, ...] = (1.0,)  # batch costs over their mean, at even quantiles
    others_restart_s: float = 0.0  # other loaders' workers that start and stop again, seconds per step
    restarting: tuple[RestartingLoader, ...] = ()  # those loaders, the costliest first
    others_cpu_s: float = 0.0  # CPU seconds per step, for others' batches that the training process prepares
    file_bytes: int | None = None  # that read calls return while a batch is made, median; None if unknown
    items_in_all: int | None = None  # of several data sets, where its line makes loaders of each in turn

    @property
    def restarts(self) -> int:
        """How often its workers started again, where those of one loader could have lived on."""
        if not self.num_workers or self.persistent_workers:
            return 0
        return max(0, self.epochs - (1 if self.anew else self.built))

    @property
    def others_wait_s(self) -> float:
        """Waits for all other loaders, seconds per step."""
        return self.other_wait_s + self.beside_wait_s

    @property
    def passes(self) -> float | None:
        """How many times each item was prepared while watched; None where the dataset tells no length."""
        return self.samples / self.all_items if self.samples and self.all_items else None

    @property
    def all_items(self) -> int | None:
        """The items of all data sets that were prepared."""
        return self.items_in_all or self.items

    @property
    def items_bytes(self) -> float | None:
        """What all items take as batches hold them; None where that was not measured."""
        if not self.samples or not self.all_items or not self.batch_bytes:
            return None
        return self.batch_bytes * self.batches / self.samples * self.all_items

    def keeps_ahead(self, step_s: float) -> bool:
        """Whether even the costliest batches take the workers half of the time that steps leave them at most.

        What is waited for then is that a batch is handed over, not that it is prepared.
        """
        costliest_s = self.batch_s * max(self.spread) * self.batches_per_step
        return bool(self.num_workers) and costliest_s < AHEAD * step_s * self.num_workers


CROWDED = 0.25  # of the usable cores kept busy by other programs
HYPER_THREAD = 0.25  # of a core's work is what a second thread on it adds: 0.15 to 0.3, as its makers say


@dataclass(frozen=True)
class CpuFacts:
    """Cores the run may use and how busy they were between the first step and the last."""

    usable_cores: float  # min of affinity, cpuset and cgroup quota
    busy_cores: float | None  # mean busy cores of the whole process tree
    main_cores: float | None  # mean cores the training process used
    worker_cores: float | None  # mean cores all loader workers used together
    limited_by: str = "machine"  # machine | affinity | cpuset | cgroup quota
    other_cores: float | None = None  # cores kept busy by other people's processes
    worker_delay: float | None = None  # seconds that a worker is ready but has no core, per second it runs
    main_delay: float | None = None  # the same of all threads of the training process, per second of time
    whole_cores: float | None = None  # of the usable ones: hyper-threads of a core together are one

    @property
    def worth_cores(self) -> float:
        """How many whole cores do as much as all usable ones, where hyper-threads are among these."""
        if self.whole_cores is None:
            return self.usable_cores
        return self.whole_cores + HYPER_THREAD * (self.usable_cores - self.whole_cores)

    def worth(self, cores: float) -> float:
        """How many whole cores do as much as so many of the usable ones, in the mean."""
        return cores * self.worth_cores / self.usable_cores

    @property
    def crowded(self) -> bool:
        """Whether other programs kept so many cores busy that times are those of a busy machine."""
        return (self.other_cores or 0.0) >= CROWDED * self.usable_cores

    def worked_s(self, cpu_s: float) -> float:
        """Seconds in which a worker that ran for `cpu_s` ran or had no core: it waited for nothing else."""
        return cpu_s * (1.0 + (self.worker_delay or 0.0))


@dataclass(frozen=True)
class ThreadFacts:
    """torch's intra-op threads in the training process."""

    intra_op: int
    set_by: str | None  # "OMP_NUM_THREADS=1", "torch.set_num_threads" or None for torch's default
    at: Location | None = None  # the set_num_threads line
    per_module_s: float | None = None  # forward and backward seconds per call of a module: size of operations


@dataclass(frozen=True)
class LineCost:
    """One line of the user's code and the share of the training thread's wall time it takes."""

    at: Location
    share: float
    samples: int
    leaf: str | None = None  # innermost function reached from that line
    kind: str | None = None  # "logging", "checkpoint", "data", ... where the stack or the line tells
    only_reported: bool = False  # the source shows that no update depends on it: it can run less often
    interval: Interval = OF_STEPS  # at which it runs, of a line that logs
    reads_tensor: bool = False  # of a line that logs: it reads, or is handed, a tensor that the model gave
    # Of a line that logs: the innermost of the user's below it, by most samples. Of one that makes steps
    # stall: the innermost that nearly all of its time lies below.
    inner: Location | None = None
    # Of a line whose time goes into what it hands to a logger: whether it asks for it, in the script's words.
    asks: str | None = None


@dataclass(frozen=True)
class StackFacts:
    """What stack samples of the training thread saw. Shares are of its wall time."""

    samples: int
    source: str  # "py-spy" or "in-process"
    phases: Mapping[Phase, tuple[LineCost, ...]]  # user lines below each phase, costliest first
    own_samples: int | None = None  # of all: those that met the probe at work; None: an older report


@dataclass(frozen=True)
class MemoryFacts:
    """Memory of the process tree."""

    private_bytes: int | None
    shared_bytes: int | None  # a page counts once for each process that has it
    peak_rss_bytes: int | None
    total_bytes: int | None
    shm_free_bytes: int | None = None  # the least that any sample saw
    shm_bytes: int | None = None  # its size
    available_bytes: int | None = None  # the least that was left, of the machine's and of a container's limit
    # Of the processes that are no loader workers, which share what they were forked with: no file's pages.
    anonymous_bytes: int | None = None
    held_bytes: int | None = None  # the most that a sample saw held at once, each page once

    @property
    def most_bytes(self) -> int | None:
        """The most that was held at once: each page once, where that was read, which is seldom."""
        if not self.held_bytes:
            return self.peak_rss_bytes
        return max(self.held_bytes, self.anonymous_bytes or 0)


@dataclass(frozen=True)
class GpuFacts:
    """What NVML or amdsmi said of the accelerators in use. Each may be None, with the reason beside it."""

    names: tuple[str, ...]
    utilisation: float | None  # share of time a kernel ran, mean
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None = None
    memory_peak_bytes: int | None = None  # the most that any sample saw on one of them
    reasons: Mapping[str, str] = field(default_factory=dict)
    free: int | None = None  # others that the run can see and nobody uses; None where that is not known


@dataclass(frozen=True)
class OperatorCost:
    """One operator in the profiled steps."""

    name: str
    share: float  # of the time of all operators, without those inside it
    calls_per_step: float


@dataclass(frozen=True)
class ConstantCopyLine:
    """A line that copies tensors to the device in every step, which never change. Figures are of a step."""

    at: Location
    host_memory: str  # "pageable" | "pinned"
    count: float
    bytes: float
    seconds: float  # that the host takes, with what it waits for; by a window, that the copies take


@dataclass(frozen=True)
class WindowFacts:
    """What a window of torch.profiler saw inside the step, costliest operator first."""

    file: str
    steps: int
    on_device: bool  # shares are of the device's time; else of the host's
    operators: tuple[OperatorCost, ...]


@dataclass(frozen=True)
class OverheadFacts:
    """What watching cost: the likely figure, and the least and the most that it may be."""

    seconds_per_step: float
    share: float
    sampler_cores: float | None = None  # cores perfdoctor's own processes used
    low_seconds_per_step: float = 0.0
    high_seconds_per_step: float | None = None  # None: no stack samples that could tell


# ---------------------------------------------------------------- conclusions
