"""Events of DataLoaders: how they are built, their epochs, their workers, what batches look like."""

from __future__ import annotations

from . import Event, Line, Signed

DEFAULT_PREFETCH = 2  # batches for each worker: torch's own, where the script names none


class LoaderEvent(Event, name="loader"):
    """A DataLoader was constructed."""

    id: int  # the loaders of a process are numbered from 1
    num_workers: int
    batch_size: int | None
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory: bool
    start_method: str | None
    dataset: str  # module.Class
    iterable: bool
    sampler: str | None
    own_batch_sampler: bool
    at: Line | None
    library: str | None = None  # that makes it for the user, if one does
    collate: str | None = None  # module.function, or module.Class of an object that is called
    contents: int | None = None  # checksum of what the dataset holds; None where it cannot be read


class EpochEvent(Event, name="epoch"):
    """An iterator of a loader delivered its first batch."""

    loader: int | None
    index: int | None  # iterators of a loader are numbered from 1
    begin_ns: int
    startup_ns: int  # what starting the iterator took
    first_wait_ns: int
    workers: list[int]  # process ids
    items: int | None  # in the dataset, where it tells


class EpochEndEvent(Event, name="epoch_end"):
    """An iterator of a loader is exhausted, or was left."""

    loader: int | None
    index: int | None
    batches: int
    wait_ns: int  # for all batches but the first
    end_wait_ns: int | None  # for the end; None where the loop left before
    last_ns: int  # when its last batch was there


class WorkerEvent(Event, name="worker"):
    """A loader worker fetched its first batch."""

    worker: int | None
    born_ns: int
    first_fetch_ns: int


class WorkersEndEvent(Event, name="workers_end"):
    """The workers of an iterator were stopped that the loop had left before its end."""

    workers: list[int]  # process ids
    wait_ns: int


class BatchTensorsEvent(Event, name="batch_tensors"):
    """How many tensors a batch holds that a loader delivered."""

    loader: int | None
    tensors: int  # each of which comes from a worker in memory of its own
    longest: int  # entries of the longest list or dictionary in it


class PaddingEvent(Event, name="padding"):
    """What rows of integers in a batch hold; of frames of features only where a mask or lengths tell it."""

    loader: int | None  # 0: what models are called with
    place: int  # of the tensor in the batch
    width: int
    lengths: list[int]  # of the rows, without what fills them
    fill: Signed | None  # None: frames
    leading: bool  # the fill stands at the beginning
    inside: int  # how often the fill stands among the rest
    kinds: int  # different other values
    masked: bool  # a mask of the batch, or its lengths, marks exactly the fill
