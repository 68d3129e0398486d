"""Which event of a trace goes into which table, and what is kept of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import Any

import numpy as np

from perfdoctor.trace.columns import (
    UNKNOWN,
    DeviceEvents,
    DeviceKind,
    HostEvents,
    Inputs,
    Ints,
    MemoryEvents,
    OpDetails,
    RuntimeCalls,
    SyncEvents,
)

Json = Mapping[str, Any]
DeviceRow = tuple[int, int, int, int, int, int, Json]  # the parameters of Tables.add_device, one of each


class Table(IntEnum):
    """Where an event goes."""

    NOTHING = 0
    OPS = 1
    CALLS = 2
    ANNOTATIONS = 3
    FUNCTIONS = 4
    DEVICE = 5
    SYNCS = 6
    MEMORY = 7


# Category, lower case: where complete events ("ph": "X") of it go. The first of each is today's spelling.
TABLES = {
    "cpu_op": Table.OPS,
    "operator": Table.OPS,
    "cuda_runtime": Table.CALLS,
    "cuda_driver": Table.CALLS,
    "runtime": Table.CALLS,
    "user_annotation": Table.ANNOTATIONS,
    "python_function": Table.FUNCTIONS,
    "kernel": Table.DEVICE,
    "gpu_memcpy": Table.DEVICE,
    "memcpy": Table.DEVICE,
    "gpu_memset": Table.DEVICE,
    "memset": Table.DEVICE,
    "cuda_sync": Table.SYNCS,
}
RUNTIMES = ("_runtime", "_driver")  # hip, xpu, privateuse1, ...
KINDS = {"gpu_memcpy": DeviceKind.COPY, "memcpy": DeviceKind.COPY, "gpu_memset": DeviceKind.MEMSET,
         "memset": DeviceKind.MEMSET}  # fmt: skip
MEMORY_EVENT = "[memory]"
BUILTIN = "<built-in"  # half of all Python functions; no line of anybody's
WITH_DETAILS = re.compile(
    r"aten::(_?(b|add|badd|addb|scaled_|_scaled_)?(mm|bmm|mv|addmv|matmul|linear|baddbmm|addbmm|grouped_mm)"
    r"|.*conv.*|.*attention.*|_?local_scalar_dense|item|is_nonzero|nonzero|copy_|_to_copy|to|masked_select"
    r"|index|unique.*|equal|embedding.*)|(?!aten::).*(gemm|conv|attention|attn|fmha|linear|mha).*",
    re.IGNORECASE,
)
HOST = 0  # "Device Type" of host memory in allocation events; 1 is CUDA and ROCm
NANOSECONDS = 1000
GROWTH = 1.25  # of a column that is full: what is not filled takes memory, too


def table_of(phase: object, category: object, name: object) -> Table:
    """The table of an event by its `ph`, `cat` and `name`."""
    if phase == "X":
        lower = str(category).lower()
        table = TABLES.get(lower)
        if table is None:
            return Table.CALLS if lower.endswith(RUNTIMES) else Table.NOTHING
        builtin = table is Table.FUNCTIONS and str(name).startswith(BUILTIN)
        return Table.NOTHING if builtin else table
    return Table.MEMORY if name == MEMORY_EVENT else Table.NOTHING


def kind_of(category: object) -> DeviceKind:
    """What a device event of this `cat` is."""
    return KINDS.get(str(category).lower(), DeviceKind.KERNEL)


def nanoseconds(microseconds: Any) -> int | None:
    """A time stamp or duration as whole nanoseconds, exact for int and Decimal; None if it is no number."""
    if isinstance(microseconds, int):
        return microseconds * NANOSECONDS
    if isinstance(microseconds, (float, Decimal)) and math.isfinite(microseconds):
        before_point = int(microseconds)  # apart: the product of a large float64 would be rounded twice
        return before_point * NANOSECONDS + round((microseconds - before_point) * NANOSECONDS)
    if isinstance(microseconds, str):
        try:
            return round(Decimal(microseconds) * NANOSECONDS)
        except ArithmeticError:
            return None
    return None


def whole(value: Any, otherwise: int = UNKNOWN) -> int:
    """A whole number that fits a column, or `otherwise`."""
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, (int, float)) and value == value and abs(value) < 2**63:
        return int(value)
    return otherwise


def _column(args: Sequence[Json], key: str, otherwise: Any = UNKNOWN) -> Ints:
    """One argument of many events as (n,) int64; `otherwise` where it is missing or no number."""
    values = np.array([entry.get(key, UNKNOWN) for entry in args])
    if values.dtype != np.int64:
        values = np.array([whole(entry.get(key)) for entry in args], np.int64)
    return np.where(values == UNKNOWN, otherwise, values)


class Columns:
    """Columns of one table that grow by whole arrays and by single rows."""

    def __init__(self, **types: str) -> None:
        self.arrays = {name: np.empty(0, kind) for name, kind in types.items()}
        self.rows: list[tuple[Any, ...]] = []
        self.filled = 0

    @property
    def count(self) -> int:
        """Rows so far."""
        return self.filled + len(self.rows)

    def extend(self, *values: Any) -> None:
        """Append arrays or sequences of equal length, in the order of the columns."""
        self.flush()
        self._append(values)

    def add(self, *values: Any) -> None:
        """Append one row."""
        self.rows.append(values)

    def flush(self) -> None:
        """Turn single rows into arrays."""
        if self.rows:
            self._append(tuple(zip(*self.rows, strict=True)))
            self.rows.clear()

    def done(self) -> dict[str, Any]:
        """The columns, whole."""
        self.flush()
        for array in self.arrays.values():
            array.resize(self.filled, refcheck=False)
        return self.arrays

    def _append(self, values: Sequence[Any]) -> None:
        filled = self.filled + len(values[0])
        for array, part in zip(self.arrays.values(), values, strict=True):
            if filled > len(array):
                array.resize(int(filled * GROWTH), refcheck=False)  # a large block moves without being copied
            array[self.filled : filled] = part
        self.filled = filled


class Interned:
    """Values numbered by first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """The number of a hashable value."""
        return self.numbers.setdefault(value, len(self.numbers))

    def values(self) -> list[Any]:
        """All values, by number."""
        return list(self.numbers)


class Tables:
    """All tables of a trace while it is read."""

    def __init__(self) -> None:
        host = {"begin_ns": "i8", "duration_ns": "i8", "name": "u4", "thread": "u2"}
        self.names, self.threads, self.inputs, self.stacks = Interned(), Interned(), Interned(), Interned()
        self.host = {table: Columns(**host) for table in (Table.OPS, Table.ANNOTATIONS, Table.FUNCTIONS)}
        self.calls = Columns(**host, correlation="i8")
        self.device = Columns(
            begin_ns="i8", duration_ns="i8", name="u4", kind="u1", device="i4", stream="i8",
            correlation="i8", bytes="i8", occupancy="f4",
        )  # fmt: skip
        self.syncs = Columns(begin_ns="i8", duration_ns="i8", name="u4", stream="i8", correlation="i8")
        self.memory = Columns(
            begin_ns="i8", bytes="i8", on_device="?", device="i4", allocated="i8", reserved="i8"
        )
        self.details = Columns(op="u4", inputs="i4", stack="i4")
        self.device_rows: list[DeviceRow] = []  # not in columns yet
        self.events = 0

    def thread(self, process: Any, thread: Any) -> int:
        """The number of a host thread; the last one stands for all past 65 535."""
        return min(self.threads.number((str(process), str(thread))), 0xFFFF)

    def add(self, event: Json) -> bool:
        """Take one event as decoded from JSON; False if its numbers cannot be used."""
        table = table_of(event.get("ph"), event.get("cat"), event.get("name"))
        if table is Table.NOTHING:
            return True
        begin_ns = nanoseconds(event.get("ts"))
        if begin_ns is None or abs(begin_ns) >= 2**62:
            return False
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        if table is Table.MEMORY:
            self.add_memory(begin_ns, arguments)
            return True
        duration_ns = nanoseconds(event.get("dur", 0))
        if duration_ns is None or abs(duration_ns) >= 2**62:
            return False
        name = self.names.number(str(event.get("name")))
        process, thread = event.get("pid"), event.get("tid")
        if table is Table.DEVICE:
            kind = kind_of(event.get("cat"))
            self.device_rows.append(
                (begin_ns, duration_ns, name, kind, whole(process), whole(thread), arguments)
            )
        elif table is Table.SYNCS:
            self.add_sync(begin_ns, duration_ns, name, thread, arguments)
        elif table is Table.CALLS:
            correlation = whole(arguments.get("correlation"))
            self.calls.add(begin_ns, duration_ns, name, self.thread(process, thread), correlation)
        else:
            if table is Table.OPS and WITH_DETAILS.fullmatch(str(event.get("name"))):
                self.add_details(self.host[table].count, arguments)
            self.host[table].add(begin_ns, duration_ns, name, self.thread(process, thread))
        return True

    def add_device(
        self,
        begin_ns: Any,
        duration_ns: Any,
        name: Any,
        kind: Any,
        process: Any,
        lane: Any,
        args: Sequence[Json],
    ) -> None:
        """Append kernels, copies and memsets, given as columns.

        `process` and `lane`, numbers, stand for device and stream where the arguments do not name them.
        """
        occupancy = [entry.get("est. achieved occupancy %") for entry in args]
        self.device.extend(
            begin_ns,
            duration_ns,
            name,
            kind,
            _column(args, "device", process).clip(-(2**31), 2**31 - 1),
            _column(args, "stream", lane),
            _column(args, "correlation"),
            _column(args, "bytes"),
            [share / 100 if isinstance(share, (int, float)) else math.nan for share in occupancy],
        )

    def add_sync(self, begin_ns: int, duration_ns: int, name: int, thread: Any, args: Json) -> None:
        """Append the device's record of a wait."""
        stream = whole(args.get("stream"), whole(thread))
        self.syncs.add(begin_ns, duration_ns, name, stream, whole(args.get("correlation")))

    def add_memory(self, begin_ns: int, args: Json) -> None:
        """Append an allocation or a free."""
        device = whole(args.get("Device Id"))
        self.memory.add(
            begin_ns,
            whole(args.get("Bytes"), 0),
            whole(args.get("Device Type"), HOST) != HOST,
            max(UNKNOWN, min(2**31 - 1, device)),
            whole(args.get("Total Allocated")),
            whole(args.get("Total Reserved")),
        )

    def add_details(self, op: int, args: Json) -> None:
        """Keep shapes and stack of operator number `op`, where recorded."""
        shapes = args.get("Input Dims", args.get("Input dims"))
        stack = args.get("Call stack")
        if not shapes and not stack:
            return
        inputs = self.inputs.number(_inputs(shapes, args)) if isinstance(shapes, list) else UNKNOWN
        frames = tuple(frame for frame in stack.split(";") if frame) if isinstance(stack, str) else ()
        self.details.add(op, inputs, self.stacks.number(frames) if frames else UNKNOWN)

    def host_events(self, table: Table) -> HostEvents:
        """A finished table of host events."""
        return HostEvents(**self.host[table].done())

    def flush(self) -> None:
        """Put what was taken one by one into columns; called now and then, to keep memory low."""
        if self.device_rows:
            self.add_device(*zip(*self.device_rows, strict=True))
            self.device_rows.clear()
        for columns in (*self.host.values(), self.calls, self.syncs, self.memory, self.details):
            columns.flush()

    def finished(self) -> dict[str, Any]:
        """The fields of `Trace` that are tables."""
        self.flush()
        return {
            "ops": self.host_events(Table.OPS),
            "annotations": self.host_events(Table.ANNOTATIONS),
            "functions": self.host_events(Table.FUNCTIONS),
            "calls": RuntimeCalls(**self.calls.done()),
            "device": DeviceEvents(**self.device.done()),
            "syncs": SyncEvents(**self.syncs.done()),
            "memory": MemoryEvents(**self.memory.done()),
            "details": OpDetails(**self.details.done()),
            "names": self.names.values(),
            "threads": self.threads.values(),
            "inputs": self.inputs.values(),
            "stacks": self.stacks.values(),
            "events": self.events,
        }


def _inputs(shapes: list[Any], args: Json) -> Inputs:
    types, values = args.get("Input type"), args.get("Concrete Inputs")
    return Inputs(
        tuple(_shape(shape) for shape in shapes),
        tuple(str(kind) for kind in types) if isinstance(types, list) else (),
        tuple(str(value) for value in values) if isinstance(values, list) else (),
    )


def _shape(shape: Any) -> tuple[int, ...]:
    """The sizes of a tensor; () for what is none."""
    if isinstance(shape, list) and all(isinstance(size, int) for size in shape):
        return tuple(shape)
    return ()
