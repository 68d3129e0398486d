"""Decides which table each event of a trace goes into, and numbers what events have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from enum import IntEnum
from typing import Any

import numpy as np

from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, Flags, Ints

WHOLE = re.compile(r"-?[0-9]{1,19}")  # a number that is written as text and may fit a column


class EventTable(IntEnum):
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
    "cpu_op": EventTable.OPS,
    "operator": EventTable.OPS,
    "cuda_runtime": EventTable.CALLS,
    "cuda_driver": EventTable.CALLS,
    "runtime": EventTable.CALLS,
    "user_annotation": EventTable.ANNOTATIONS,
    "python_function": EventTable.FUNCTIONS,
    "kernel": EventTable.DEVICE,
    "gpu_memcpy": EventTable.DEVICE,
    "memcpy": EventTable.DEVICE,
    "gpu_memset": EventTable.DEVICE,
    "memset": EventTable.DEVICE,
    "cuda_sync": EventTable.SYNCS,
}
# Of complete events that are no work, or that say of work what others say as well.
NO_WORK = frozenset(
    {"trace", "overhead", "gpu_user_annotation", "python_function", "cuda_event", "external_correlation",
     "cuda_profiler_range", "hardware_counters", "collective_comm", "xpu_sync", "xpu_scope_profiler"}
)  # fmt: skip
RUNTIMES = ("_runtime", "_driver")  # hip, xpu, privateuse1, ...
KINDS = {"gpu_memcpy": DeviceKind.COPY, "memcpy": DeviceKind.COPY, "gpu_memset": DeviceKind.MEMSET,
         "memset": DeviceKind.MEMSET}  # fmt: skip
MEMORY_EVENT = "[memory]"
BUILTIN = "<built-in"  # half of all Python functions; no line of anybody's
WITH_DETAILS = re.compile(
    r"aten::(_?(b|add|badd|addb|scaled_|_scaled_)?(mm|bmm|mv|addmv|matmul|linear|baddbmm|addbmm|grouped_mm)"
    r"|.*conv.*|.*attention.*|_?local_scalar_dense|item|is_nonzero|nonzero|copy_|_to_copy|to|masked_select"
    r"|index|unique.*|equal|embedding.*|_softmax"
    r"|(zeros|ones|full|rand|randn|randint)(_like)?|(normal|uniform|bernoulli|random|exponential)_)"
    r"|(?!aten::).*(gemm|conv|attention|attn|fmha|linear|mha).*",
    re.IGNORECASE,
)
NANOSECONDS = 1000
LARGEST_US = 2**62 // NANOSECONDS  # the year 2116; sums still fit into 64 bits
HOST_TABLES = (EventTable.OPS, EventTable.ANNOTATIONS, EventTable.FUNCTIONS)
LAST_THREAD = 0xFFFF  # stands for all threads past it
HEAD = np.dtype(
    [
        ("table", "u1"), ("name", "u4"), ("thread", "u2"), ("kind", "u1"), ("process", "i8"), ("track", "i8"),
        ("details", "?"),
    ]
)  # fmt: skip


def table_of(phase: object, category: object, name: object) -> EventTable:
    """The table of an event by its `ph`, `cat` and `name`."""
    if phase == "X":
        lower = str(category).lower()
        table = TABLES.get(lower)
        if table is None:
            return EventTable.CALLS if lower.endswith(RUNTIMES) else EventTable.NOTHING
        builtin = table is EventTable.FUNCTIONS and str(name).startswith(BUILTIN)
        return EventTable.NOTHING if builtin else table
    return EventTable.MEMORY if name == MEMORY_EVENT else EventTable.NOTHING


def nanoseconds(microseconds: Sequence[Any]) -> tuple[Ints, Flags]:
    """Time stamps or durations as decoded from JSON: (n,) int64 nanoseconds, and (n,) whether each is usable.

    Exact for whole numbers and Decimals, and for float64 as far as those tell nanoseconds apart.
    """
    try:
        values = np.array(microseconds)
    except (ValueError, OverflowError):
        values = np.empty(0, object)
    if values.dtype == np.float64 and values.ndim == 1:
        good = np.abs(values) < LARGEST_US
        before_point = np.trunc(np.where(good, values, 0))  # apart: large products would be rounded twice
        after_point = np.rint((np.where(good, values, 0) - before_point) * NANOSECONDS)
        return before_point.astype(np.int64) * NANOSECONDS + after_point.astype(np.int64), good
    exact = [_nanoseconds(value) for value in microseconds]
    good = np.array([value is not None for value in exact], bool)
    return np.array([value or 0 for value in exact], np.int64), good


def _nanoseconds(microseconds: Any) -> int | None:
    try:
        number = Decimal(microseconds) if isinstance(microseconds, str) else microseconds
        if isinstance(number, (int, float, Decimal)) and -LARGEST_US < number < LARGEST_US:
            before_point = int(number)
            return before_point * NANOSECONDS + round((number - before_point) * NANOSECONDS)
    except ArithmeticError:  # a Decimal that is no number
        pass
    return None


def whole(value: Any, otherwise: int = UNKNOWN) -> int:
    """A whole number that fits a column, or `otherwise`."""
    if isinstance(value, str) and WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, (int, float)) and value == value and abs(value) < 2**63:
        return int(value)
    return otherwise


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


Key = tuple[Any, Any, Any, Any, Any]  # ph, cat, name, pid, tid


class Heads(dict[Key, int]):
    """What events have in common, numbered: looking a new one up decides where its events go."""

    def __init__(self) -> None:
        super().__init__()
        self.names, self.threads = Interned(), Interned()
        self.unknown: set[str] = set()  # categories of complete events that go nowhere, and may be work
        self.columns = np.empty(0, HEAD)
        self.fresh: list[tuple[Any, ...]] = []

    def __missing__(self, key: Key) -> int:
        phase, category, name, process, thread = key
        table = table_of(phase, category, name)
        if table is EventTable.NOTHING and phase == "X" and category is not None:
            self.unknown |= {str(category).lower()} - NO_WORK
        on_host = table in HOST_TABLES or table is EventTable.CALLS
        self.fresh.append(
            (
                table,
                self.names.number(str(name)) if table is not EventTable.NOTHING else 0,
                min(self.threads.number((str(process), str(thread))), LAST_THREAD) if on_host else 0,
                KINDS.get(str(category).lower(), DeviceKind.KERNEL),
                whole(process),
                whole(thread),
                table is EventTable.OPS and WITH_DETAILS.fullmatch(str(name)) is not None,
            )
        )
        self[key] = number = len(self.columns) + len(self.fresh) - 1
        return number

    def table(self) -> np.ndarray[Any, np.dtype[np.void]]:
        """What all heads say, by number: (n,) of HEAD."""
        if self.fresh:
            self.columns = np.concatenate((self.columns, np.array(self.fresh, HEAD)))
            self.fresh.clear()
        return self.columns
