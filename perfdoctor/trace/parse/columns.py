"""A trace as columns: numpy arrays of whole nanoseconds, with names, threads and long texts interned.

Time stamps are whole nanoseconds on the trace's own clock (its microseconds times 1000): epoch nanoseconds
do not fit into a float64, and every sum below is exact.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from perfdoctor.model.dataclass import dataclass

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]
Flags = npt.NDArray[np.bool_]

UNKNOWN = -1  # in a column of whole numbers: the trace does not say
ELEMENTS = 2**63  # a tensor has fewer: they are counted by whole numbers of 64 bits
ALL = slice(None)


class DeviceKind(IntEnum):
    """What a device event is."""

    KERNEL = 0
    COPY = 1
    MEMSET = 2


@dataclass(frozen=True)
class TimedEvents:
    """Events that last, n of them, in the order of the file."""

    begin_ns: Ints  # (n,) int64
    duration_ns: Ints  # (n,) int64
    name: Ints  # (n,) index into Trace.names

    def __len__(self) -> int:
        return len(self.begin_ns)

    def ends_ns(self, rows: Ints | slice = ALL) -> Ints:
        """When the events end, or those numbered `rows`."""
        ends: Ints = self.begin_ns[rows] + self.duration_ns[rows]
        return ends


@dataclass(frozen=True)
class HostEvents(TimedEvents):
    """Events of host threads of one category; nested ones overlap."""

    thread: Ints  # (n,) index into Trace.threads


@dataclass(frozen=True)
class RuntimeCalls(HostEvents):
    """Calls into the device's runtime or driver. `correlation` ties each to the device events it launched."""

    correlation: Ints  # (n,) int64, UNKNOWN where absent


@dataclass(frozen=True)
class DeviceEvents(TimedEvents):
    """Kernels, copies and memsets."""

    kind: Ints  # (n,) DeviceKind
    device: Ints  # (n,) device number
    stream: Ints  # (n,) stream number
    correlation: Ints  # (n,) int64, UNKNOWN where absent; a replayed graph's events share one
    bytes: Ints  # (n,) int64, UNKNOWN where absent; moved by copies and memsets
    occupancy: Floats  # (n,) float32, estimated share of the device's warps; NaN where absent
    blocks: Ints  # (n,) int64, thread blocks of a kernel's grid; UNKNOWN where absent
    group: Ints  # (n,) index into Trace.groups, of a communication kernel; UNKNOWN where absent


@dataclass(frozen=True)
class SyncEvents(TimedEvents):
    """The device's own record of waits (category `cuda_sync`), such as "Stream Sync": no device work."""

    stream: Ints  # (n,) stream number, UNKNOWN where absent
    correlation: Ints  # (n,) int64, UNKNOWN where absent


@dataclass(frozen=True)
class MemoryEvents:
    """Allocations (bytes > 0) and frees (bytes < 0), n of them."""

    begin_ns: Ints  # (n,) int64
    bytes: Ints  # (n,) int64
    on_device: Ints  # (n,) bool: False for host memory
    device: Ints  # (n,) device number, UNKNOWN for the host
    allocated: Ints  # (n,) int64, bytes in use after the event, UNKNOWN where absent
    reserved: Ints  # (n,) int64, bytes held by the caching allocator, UNKNOWN where absent

    def __len__(self) -> int:
        return len(self.begin_ns)


@dataclass(frozen=True)
class OpDetails:
    """The arguments kept of some operators, n of them, in the order of the file: of matrix products,
    convolutions, attention and those that may wait for the device.
    """

    op: Ints  # (n,) index into Trace.ops
    inputs: Ints  # (n,) index into Trace.inputs, UNKNOWN where shapes were not recorded
    stack: Ints  # (n,) index into Trace.stacks, UNKNOWN where there is none

    def __len__(self) -> int:
        return len(self.op)


@dataclass(frozen=True)
class Inputs:
    """Shapes and types of an operator's inputs, as recorded."""

    shapes: tuple[tuple[int, ...], ...]  # of tensors; () for scalars, other values and nested lists
    types: tuple[str, ...]  # "float", "c10::BFloat16", "Scalar", ...; () where not recorded
    values: tuple[str, ...] = ()  # scalars and lists as text where recorded ("Concrete Inputs")


@dataclass(frozen=True)
class ProcessGroup:
    """The ranks that a communication kernel is of, as recorded."""

    name: str  # its number, or a hash: the same on each of its ranks
    ranks: str = ""  # "[0, 1]", shortened where there are many; "" where not recorded
    size: int = UNKNOWN


@dataclass(frozen=True)
class DeviceProperties:
    """One entry of `deviceProperties`."""

    id: int
    name: str
    memory_bytes: int | None = None
    major: int | None = None
    minor: int | None = None
    multiprocessors: int | None = None
    warp: int | None = None  # threads that run together: 32 on NVIDIA, 64 on AMD Instinct


@dataclass(frozen=True)
class Skipped:
    """What of a file could not be used."""

    bytes: int = 0
    events: int = 0
    because: str | None = None  # one sentence, None where nothing was skipped
    device_events: int = 0  # of `events`: kernels, copies and memsets, as far as it is known
    is_cut: bool = False  # what follows some event is missing, the device's work perhaps: it is written last


@dataclass(frozen=True)
class Trace:
    """One trace file in columns."""

    file: str
    names: list[str]
    threads: list[tuple[str, str]]  # (process, thread) as text
    ops: HostEvents
    calls: RuntimeCalls
    annotations: HostEvents  # record_function: ProfilerStep#n, enumerate(DataLoader)..., Optimizer.step#...
    functions: HostEvents  # Python functions: "file.py(12): name", "nn.Module: Linear_0"
    device: DeviceEvents
    syncs: SyncEvents
    memory: MemoryEvents
    details: OpDetails
    inputs: list[Inputs] = field(default_factory=list)
    stacks: list[tuple[str, ...]] = field(default_factory=list)  # frames as recorded, innermost first
    groups: list[ProcessGroup] = field(default_factory=list)
    unknown: tuple[str, ...] = ()  # categories of complete events in no table that may be work of a device
    devices: tuple[DeviceProperties, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    epoch_offset_ns: int = 0  # add to a time stamp to get epoch nanoseconds
    events: int = 0  # in the file, of every kind
    skipped: Skipped = Skipped()

    def text(self, name: int) -> str | None:
        """The name of that number; None for UNKNOWN."""
        return None if name == UNKNOWN else self.names[name]

    def op_name(self, op: int) -> str | None:
        """The name of an operator by its number; None for UNKNOWN."""
        return None if op == UNKNOWN else self.names[self.ops.name[op]]
