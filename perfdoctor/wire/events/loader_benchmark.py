"""Events of the measurement of one DataLoader."""

from __future__ import annotations

from . import Event, Line


class LoadingEvent(Event, name="loading"):
    """A loader is being measured."""

    id: int | None
    built: int | None  # loaders constructed so far
    ranks: int  # that train on this host
    seconds: float
    same_dataset: list[int]  # loaders on the same dataset
    library: str | None  # that iterates the loader for the user


class LoadingNoneEvent(Event, name="loading_none"):
    """The script trains without the loader to measure."""

    updates: int
    asked: bool = False  # for one loader, by its number or its line


class LoadingSkippedEvent(Event, name="loading_skipped"):
    """A loader was iterated with gradients off: not the one to train with."""

    id: int | None


class LoadingEndEvent(Event, name="loading_end"):
    """The measurement is over."""

    outcome: str  # whole | failed | interrupted


class LoadingFailedEvent(Event, name="loading_failed"):
    """With so many workers, loading failed."""

    workers: int | None = None
    error: str | None = None
    at: Line | None = None
    dry: bool = False  # no error: there was no batch
    first: bool = False


class LoadingStopEvent(Event, name="loading_stop"):
    """No setting with so many workers or more was measured."""

    workers: int | None
    because: str


class LoadingStartEvent(Event, name="loading_start"):
    """How long the first batch took with so many workers."""

    workers: int | None
    first_batch_s: float | None


class LoadingRepeatsEvent(Event, name="loading_repeats"):
    """Workers deliver the same batches: they do not share the data."""

    workers: int | None


class LoadingMemoryEvent(Event, name="loading_memory"):
    """Memory that the workers hold together."""

    workers: int | None
    worker_bytes: float | None


class LoadingStretchEvent(Event, name="loading_stretch"):
    """One stretch of batches, and what each process spent on them."""

    workers: int | None
    kind: str  # cold | warm | synthetic
    batches: int
    block_batches: int
    block_s: list[float]  # of equal numbers of batches
    seconds: float
    samples: float  # of a batch
    bytes: float
    cpu_s: float  # of the training process
    delay_s: float  # it was ready to run, and had no core
    workers_cpu_s: float
    workers_delay_s: float
    collate_s: float | None = None
    collate_cpu_s: float | None = None
    draw_s: float | None = None  # of the sampler, for its indices
    draw_cpu_s: float | None = None
