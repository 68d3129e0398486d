"""Hand-made traces, a line each: what the host did, and what it launched. Times in microseconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perfdoctor.trace.parse.columns import (
    UNKNOWN,
    DeviceEvents,
    DeviceKind,
    DeviceProperties,
    HostEvents,
    Inputs,
    MemoryEvents,
    OpDetails,
    ProcessGroup,
    RuntimeCalls,
    SyncEvents,
    Trace,
)

MAIN = "main"
HOST = ("begin_ns", "duration_ns", "name", "thread")
HOW = ("device", "stream", "correlation", "bytes", "occupancy", "blocks", "group")
DEVICE = ("begin_ns", "duration_ns", "name", "kind", *HOW)


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def number(values: list[Any], value: Any) -> int:
    """The number of a value among those that were seen."""
    if value not in values:
        values.append(value)
    return values.index(value)


@dataclass
class Recording:
    """Grows event by event into a trace."""

    names: list[str] = field(default_factory=list)
    threads: list[tuple[str, str]] = field(default_factory=list)
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    inputs: list[Inputs] = field(default_factory=list)
    stacks: list[tuple[str, ...]] = field(default_factory=list)
    groups: list[ProcessGroup] = field(default_factory=list)
    devices: tuple[DeviceProperties, ...] = ()

    def op(
        self,
        name: str,
        begin: float,
        end: float,
        shapes: Iterable[tuple[int, ...]] = (),
        types: Iterable[str] = (),
        values: Iterable[str] = (),
        stack: Iterable[str] = (),
        thread: str = MAIN,
    ) -> None:
        """An operator, with what is recorded of its inputs and of the stack."""
        shapes, stack = tuple(shapes), tuple(stack)
        self._host("ops", name, begin, end, thread)
        if shapes or stack:
            inputs = Inputs(shapes, tuple(types), tuple(values))
            self._add(
                "details",
                len(self.rows["ops"]) - 1,
                number(self.inputs, inputs) if shapes else UNKNOWN,
                number(self.stacks, stack) if stack else UNKNOWN,
            )

    def mark(self, name: str, begin: float, end: float, thread: str = MAIN) -> None:
        """A user annotation."""
        self._host("annotations", name, begin, end, thread)

    def function(self, name: str, begin: float, end: float, thread: str = MAIN) -> None:
        """A Python function."""
        self._host("functions", name, begin, end, thread)

    def call(
        self, name: str, begin: float, end: float, correlation: int = UNKNOWN, thread: str = MAIN
    ) -> None:
        """A runtime call."""
        self._add("calls", *self._event(name, begin, end, thread), correlation)

    def kernel(self, name: str, begin: float, end: float, **given: Any) -> None:
        """A kernel; `stream`, `device`, `correlation`, `occupancy`, `blocks` and `group` as given."""
        self._device(DeviceKind.KERNEL, name, begin, end, **given)

    def copy(self, name: str, begin: float, end: float, **given: Any) -> None:
        """A copy; also `bytes` as given."""
        self._device(DeviceKind.COPY, name, begin, end, **given)

    def memset(self, begin: float, end: float, **given: Any) -> None:
        """A memset; also `bytes` as given."""
        self._device(DeviceKind.MEMSET, "Memset (Device)", begin, end, **given)

    def launched(self, name: str, call_begin: float, begin: float, end: float, **given: Any) -> None:
        """A kernel and the call, 1 us long, that launched it."""
        correlation = len(self.rows.get("calls", [])) + 1000
        self.call("cudaLaunchKernel", call_begin, call_begin + 1, correlation, given.pop("thread", MAIN))
        self.kernel(name, begin, end, correlation=correlation, **given)

    def memory(self, begin: float, **given: Any) -> None:
        """An allocation on the device, 0 bytes unless given."""
        row = {"bytes": 0, "on_device": True, "device": 0, "allocated": UNKNOWN, "reserved": UNKNOWN, **given}
        self._add("memory", ns(begin), *row.values())

    def trace(self, **given: Any) -> Trace:
        """All of it."""
        found = Trace(
            file="trace.json",
            names=self.names,
            threads=self.threads,
            ops=HostEvents(**self._columns("ops", *HOST)),
            calls=RuntimeCalls(**self._columns("calls", *HOST, "correlation")),
            annotations=HostEvents(**self._columns("annotations", *HOST)),
            functions=HostEvents(**self._columns("functions", *HOST)),
            device=DeviceEvents(**self._columns("device", *DEVICE)),
            syncs=SyncEvents(
                **self._columns("syncs", "begin_ns", "duration_ns", "name", "stream", "correlation")
            ),
            memory=MemoryEvents(
                **self._columns("memory", "begin_ns", "bytes", "on_device", "device", "allocated", "reserved")
            ),
            details=OpDetails(**self._columns("details", "op", "inputs", "stack")),
            inputs=self.inputs,
            stacks=self.stacks,
            groups=self.groups,
            devices=self.devices,
            events=sum(len(rows) for table, rows in self.rows.items() if table != "details"),
        )
        return replace(found, **given)

    def _add(self, table: str, *row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def _host(self, table: str, name: str, begin: float, end: float, thread: str) -> None:
        self._add(table, *self._event(name, begin, end, thread))

    def _event(self, name: str, begin: float, end: float, thread: str) -> tuple[int, int, int, int]:
        return ns(begin), ns(end) - ns(begin), number(self.names, name), number(self.threads, ("1", thread))

    def _device(
        self,
        kind: DeviceKind,
        name: str,
        begin: float,
        end: float,
        group: ProcessGroup | None = None,
        **given: Any,
    ) -> None:
        row = {
            "device": 0,
            "stream": 7,
            "correlation": UNKNOWN,
            "bytes": UNKNOWN,
            "occupancy": np.nan,
            "blocks": UNKNOWN,
            "group": UNKNOWN if group is None else number(self.groups, group),
            **given,
        }
        self._add(
            "device", ns(begin), ns(end) - ns(begin), number(self.names, name), int(kind), *row.values()
        )

    def _columns(self, table: str, *names: str) -> dict[str, Any]:
        columns = list(zip(*self.rows.get(table, []), strict=True)) or [()] * len(names)
        types = {"thread": np.uint16, "name": np.uint32, "kind": np.uint8, "occupancy": np.float32,
                 "on_device": np.bool_, "op": np.uint32, "inputs": np.int32, "stack": np.int32, "group": np.int32}  # fmt: skip
        return {
            name: np.array(column, types.get(name, np.int64))
            for name, column in zip(names, columns, strict=True)
        }
