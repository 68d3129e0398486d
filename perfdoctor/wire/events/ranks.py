"""Events of several processes: wrappers around models, process groups, collectives."""

from __future__ import annotations

from typing import Any

from . import Event, Line


class WrapperEvent(Event, name="wrapper"):
    """A model was wrapped for several processes or devices."""

    # DistributedDataParallel | DataParallel | FSDP (by fully_shard) | FullyShardedDataParallel
    kind: str | None
    at: Line | None
    devices: int = 0
    backend: str | None = None  # from here on: of DistributedDataParallel
    world: int | None = None
    find_unused: bool = False
    static_graph: bool = False
    bucket_bytes: int | None = None
    bucket_view: bool | None = None
    buffer_bytes: int = 0  # of the buffers that the first rank sends before each forward pass
    device: str | None = None


class ProcessGroupEvent(Event, name="process_group"):
    """The process has its default group."""

    backend: str | None
    world: int | None
    job: dict[str, Any]
    at: Line | None


class GroupEvent(Event, name="group"):
    """A group was used for the first time."""

    number: int | None  # 0: the default one
    name: str | None
    size: int | None
    backend: str | None
    ranks: list[int] | None  # None: all


class InputSizeEvent(Event, name="input_size"):
    """What a model that trains was called with, in one of a few steps of a rank."""

    elements: int  # of all tensors


class CollectivesEvent(Event, name="collectives"):
    """Running totals of recorded collectives."""

    calls: int
    own_s: float  # that recording them took


class BucketsEvent(Event, name="buckets"):
    """How DistributedDataParallel divides the gradients of a model."""

    model: int
    group: int
    timed: bool
    searches: bool  # for unused parameters
    count: int
    sizes: list[int]  # in bytes
