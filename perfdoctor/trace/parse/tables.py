"""The tables of a trace while it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perfdoctor.trace.parse.columns import (
    ELEMENTS,
    UNKNOWN,
    DeviceEvents,
    HostEvents,
    Inputs,
    Ints,
    MemoryEvents,
    OpDetails,
    ProcessGroup,
    RuntimeCalls,
    SyncEvents,
)
from perfdoctor.trace.parse.events import HOST_TABLES, EventTable, Heads, Interned, nanoseconds, whole

Json = Mapping[str, Any]
Kept = tuple[int, int]  # of an operator's arguments: the numbers of its inputs and its stack

GROWTH = 1.1  # of a column that is full: what is not filled takes memory, too
GROUP = "Process Group Name"
HOST_MEMORY = 0  # "Device Type" of host memory in allocation events; 1 is CUDA and ROCm
NO_ARGUMENTS: Json = {}
NOTHING: Kept = (UNKNOWN, UNKNOWN)


class Columns:
    """Columns of one table, growing by whole arrays."""

    def __init__(self, **types: str) -> None:
        self.arrays = {name: np.empty(0, kind) for name, kind in types.items()}
        self.count = 0

    def extend(self, *values: Any) -> None:
        """Append arrays or sequences of equal length, in the order of the columns."""
        filled = self.count + len(values[0])
        for array, part in zip(self.arrays.values(), values, strict=True):
            if filled > len(array):
                array.resize(int(filled * GROWTH), refcheck=False)  # a large block moves without being copied
            array[self.count : filled] = part
        self.count = filled

    def done(self) -> dict[str, Any]:
        """The columns, whole."""
        for array in self.arrays.values():
            array.resize(self.count, refcheck=False)
        return self.arrays


class Tables:
    """All tables of a trace. What is appended comes as columns: `what` is (n,) of events.HEAD."""

    def __init__(self) -> None:
        host = {"begin_ns": "i8", "duration_ns": "i8", "name": "u4", "thread": "u2"}
        self.heads, self.inputs, self.stacks, self.groups = Heads(), Interned(), Interned(), Interned()
        self.host = {table: Columns(**host) for table in HOST_TABLES}
        self.calls = Columns(**host, correlation="i8")
        self.device = Columns(
            begin_ns="i8", duration_ns="i8", name="u4", kind="u1", device="i4", stream="i8",
            correlation="i8", bytes="i8", occupancy="f4", blocks="i8", group="i4",
        )  # fmt: skip
        self.syncs = Columns(begin_ns="i8", duration_ns="i8", name="u4", stream="i8", correlation="i8")
        self.memory = Columns(
            begin_ns="i8", bytes="i8", on_device="?", device="i4", allocated="i8", reserved="i8"
        )
        self.details = Columns(op="u4", inputs="i4", stack="i4")
        self.events = self.lost_of_device = 0

    def add(self, events: Sequence[Any]) -> list[int]:
        """Take events as decoded from JSON; returns the places of those that cannot be used."""
        self.events += len(events)
        lost, rows, heads = [], [], self.heads
        for place, event in enumerate(events):
            try:
                get = event.get
                head = heads[get("ph"), get("cat"), get("name"), get("pid"), get("tid")]
            except (AttributeError, TypeError):  # no object, or a list for a name
                lost.append(place)
                continue
            rows.append((place, head, get("ts"), get("dur", 0), get("args")))
        if rows:
            lost += self._add_rows(rows)
        return lost

    def _add_rows(self, rows: list[tuple[int, int, Any, Any, Any]]) -> list[int]:
        places, heads, stamps, durations, arguments = zip(*rows, strict=True)
        what = self.heads.table()[np.array(heads)]
        begin_ns, good = nanoseconds(stamps)
        duration_ns, good_too = nanoseconds(durations)
        good &= good_too
        lost = np.flatnonzero(~good & (what["table"] != EventTable.NOTHING)).tolist()
        self.lost_of_device += int((~good & (what["table"] == EventTable.DEVICE)).sum())
        for table in EventTable:
            chosen = np.flatnonzero(good & (what["table"] == table))
            if len(chosen) and table is not EventTable.NOTHING:
                args = [arguments[row] for row in chosen.tolist()]
                args = [entry if isinstance(entry, dict) else NO_ARGUMENTS for entry in args]
                self._append(table, what[chosen], begin_ns[chosen], duration_ns[chosen], args)
        return [places[row] for row in lost]

    def _append(
        self, table: EventTable, what: Any, begin_ns: Ints, duration_ns: Ints, args: Sequence[Json]
    ) -> None:
        if table is EventTable.DEVICE:
            self.append_device(what, begin_ns, duration_ns, args)
        elif table is EventTable.SYNCS:
            self.append_syncs(what, begin_ns, duration_ns, args)
        elif table is EventTable.MEMORY:
            self.append_memory(begin_ns, args)
        elif table is EventTable.CALLS:
            self.append_calls(what, begin_ns, duration_ns, _column(args, "correlation"))
        else:
            detailed = np.flatnonzero(what["details"]).tolist()
            self.append_details(detailed, [self.kept(args[row]) for row in detailed])
            self.append_host(table, what, begin_ns, duration_ns)

    def append_host(self, table: EventTable, what: Any, begin_ns: Ints, duration_ns: Ints) -> None:
        """Append operators, annotations or Python functions."""
        self.host[table].extend(begin_ns, duration_ns, what["name"], what["thread"])

    def kept(self, args: Json) -> Kept:
        """What is kept of an operator's arguments: shapes and stack, where recorded."""
        shapes = args.get("Input Dims", args.get("Input dims"))
        stack = args.get("Call stack")
        inputs = self.inputs.number(_inputs(shapes, args)) if shapes and isinstance(shapes, list) else UNKNOWN
        frames = tuple(frame for frame in stack.split(";") if frame) if isinstance(stack, str) else ()
        return inputs, self.stacks.number(frames) if frames else UNKNOWN

    def append_details(self, rows: Sequence[int], kept: Sequence[Kept]) -> None:
        """Add what is kept of some of the operators appended next, by their rows."""
        first = self.host[EventTable.OPS].count
        told = [(first + row, *of_row) for row, of_row in zip(rows, kept, strict=True) if of_row != NOTHING]
        if told:
            self.details.extend(*zip(*told, strict=True))

    def append_calls(self, what: Any, begin_ns: Ints, duration_ns: Ints, correlation: Ints) -> None:
        """Append calls of the runtime or the driver."""
        self.calls.extend(begin_ns, duration_ns, what["name"], what["thread"], correlation)

    def append_device(self, what: Any, begin_ns: Ints, duration_ns: Ints, args: Sequence[Json]) -> None:
        """Append kernels, copies and memsets; where `args` are silent, the track names device and stream."""
        occupancy = [entry.get("est. achieved occupancy %") for entry in args]
        self.device.extend(
            begin_ns,
            duration_ns,
            what["name"],
            what["kind"],
            _column(args, "device", what["process"]).clip(-(2**31), 2**31 - 1),
            _column(args, "stream", what["track"]),
            _column(args, "correlation"),
            _column(args, "bytes"),
            [share / 100 if isinstance(share, (int, float)) else math.nan for share in occupancy],
            [_blocks(entry.get("grid")) for entry in args],
            [self.group(entry) if GROUP in entry else UNKNOWN for entry in args],
        )

    def group(self, args: Json) -> int:
        """The number of the process group that a kernel communicates in."""
        ranks, size = args.get("Process Group Ranks"), whole(args.get("Group size"))
        return self.groups.number(
            ProcessGroup(str(args[GROUP]), ranks if isinstance(ranks, str) else "", size)
        )

    def append_syncs(self, what: Any, begin_ns: Ints, duration_ns: Ints, args: Sequence[Json]) -> None:
        """Append the device's records of waits."""
        stream = _column(args, "stream", what["track"])
        self.syncs.extend(begin_ns, duration_ns, what["name"], stream, _column(args, "correlation"))

    def append_memory(self, begin_ns: Ints, args: Sequence[Json]) -> None:
        """Append allocations and frees."""
        self.memory.extend(
            begin_ns,
            _column(args, "Bytes", 0),
            _column(args, "Device Type", HOST_MEMORY) != HOST_MEMORY,
            _column(args, "Device Id").clip(UNKNOWN, 2**31 - 1),
            _column(args, "Total Allocated"),
            _column(args, "Total Reserved"),
        )

    def finished(self) -> dict[str, Any]:
        """The fields of `Trace` that are tables, and what they are interned in."""
        ops, annotations, functions = (HostEvents(**self.host[table].done()) for table in HOST_TABLES)
        return {
            "ops": ops,
            "annotations": annotations,
            "functions": functions,
            "calls": RuntimeCalls(**self.calls.done()),
            "device": DeviceEvents(**self.device.done()),
            "syncs": SyncEvents(**self.syncs.done()),
            "memory": MemoryEvents(**self.memory.done()),
            "details": OpDetails(**self.details.done()),
            "names": self.heads.names.values(),
            "threads": self.heads.threads.values(),
            "inputs": self.inputs.values(),
            "stacks": self.stacks.values(),
            "groups": self.groups.values(),
            "unknown": tuple(sorted(self.heads.unknown)),
            "events": self.events,
        }


def _column(args: Sequence[Json], key: str, otherwise: Any = UNKNOWN) -> Ints:
    """One argument of many events as (n,) int64; `otherwise` where it is missing or no number."""
    told = [entry.get(key, UNKNOWN) for entry in args]
    try:
        values = np.array(told)
    except ValueError:  # lists among the numbers
        values = np.empty(0, object)
    if values.dtype != np.int64:
        values = np.array([whole(each) for each in told], np.int64)
    return np.where(values == UNKNOWN, otherwise, values)


def _blocks(grid: Any) -> int:
    """The thread blocks of a grid; UNKNOWN where it is none."""
    good = isinstance(grid, list) and grid and all(type(size) is int and 0 < size < 2**31 for size in grid)
    return min(math.prod(grid), 2**62) if good else UNKNOWN


def _inputs(shapes: list[Any], args: Json) -> Inputs:
    types, values = args.get("Input type"), args.get("Concrete Inputs")
    return Inputs(
        tuple(_shape(shape) for shape in shapes),
        tuple(str(kind) for kind in types) if isinstance(types, list) else (),
        tuple(str(value) for value in values) if isinstance(values, list) else (),
    )


def _shape(shape: Any) -> tuple[int, ...]:
    """The sizes of a tensor; () for what is none."""
    good = isinstance(shape, list) and all(isinstance(size, int) for size in shape)
    return tuple(shape) if good and abs(math.prod(shape)) < ELEMENTS else ()
