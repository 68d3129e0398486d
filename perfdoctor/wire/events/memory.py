"""Events of memory: what held it when there was none left."""

from __future__ import annotations

from . import Event, Line


class OutOfMemoryEvent(Event, name="out_of_memory"):
    """The script ended because a device, or the host, had no memory left for it. All in bytes."""

    device: str | None  # "cpu", "cuda:0"; None: a process of the script's, such as a worker, had none left
    asked_bytes: int | None  # by the allocation that failed
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int  # what optimizers keep for each parameter
    base_bytes: int | None  # that the process held before it first called a model, less that model (host)
    stepped: bool  # an optimizer made a step, so its state is there
    held_bytes: int | None  # most that tensors held at once (device), or the whole process (host)
    reserved_bytes: int | None  # by torch's allocator, used or not
    free_bytes: int | None  # of the device at the end
    total_bytes: int | None  # of the device or, for the process, what it was allowed
    at: Line | None
