"""Groups what ran on the device by class, by kernel and by operator, and computes its work."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.annotations import Annotations
from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.measure.dtypes import dtype_of, input_type, tensor_cores
from perfdoctor.trace.measure.flops import CallWork, work
from perfdoctor.trace.measure.intervals import NS, overlapping
from perfdoctor.trace.measure.kernel_classes import is_communication, kernel_class
from perfdoctor.trace.measure.operators import Operators, details
from perfdoctor.trace.measure.source_places import places
from perfdoctor.trace.measure.updates import in_updates
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, Floats, Inputs, Ints, Trace
from perfdoctor.trace.results import ClassUse, KernelClass, KernelUse, MatrixUse, OpUse, WorkUse

CLASSES = tuple(KernelClass)
WORKING = (KernelClass.MATMUL, KernelClass.CONVOLUTION, KernelClass.ATTENTION)  # whose work shapes tell
TF32 = "tf32"
# What is launched there is of this class, if it can be: anywhere, in an optimizer's step, just before one.
PLACES = (None, KernelClass.OPTIMIZER, KernelClass.CLIPPING)
ALIGNED = 64  # no layout asks for more: 128 bytes of half precision


@dataclass(frozen=True)
class KernelGroup:
    """Device events of one name that one operator launched."""

    name: int  # its number, as `op`
    op: int  # the name of the operator, UNKNOWN where there is none
    kind: KernelClass
    dtype: str | None
    tensor_core: bool | None
    count: int
    us: float
    occupancy_us: float  # share of warps times duration, of the events that say it
    occupied_us: float  # duration of those events
    beside_us: float  # while other computing ran too
    unfilled_us: float  # NaN where the grid of one of them is not recorded
    event: int  # number of one of them


@dataclass(frozen=True)
class OperatorWork:
    """Calls of one operator with the same inputs."""

    op: str
    kind: KernelClass
    inputs: Inputs
    count: int
    us: float  # of the device events of that class that they launched
    each: CallWork


@dataclass(frozen=True)
class DeviceUse:
    """What ran on the device, each longest first."""

    classes: tuple[ClassUse, ...]
    kernels: tuple[KernelUse, ...]
    operators: tuple[OpUse, ...]
    matrices: tuple[MatrixUse, ...]
    work: tuple[WorkUse, ...]


class Kernels:
    """Groups the device events of a trace; `call` as from `launching_calls`."""

    def __init__(self, trace: Trace, call: Ints, ops: Operators, annotations: Annotations) -> None:
        self.trace = trace
        self.call = call
        self.op = np.full(len(call), UNKNOWN, np.int32)  # that launched each device event
        launched = np.flatnonzero(call != UNKNOWN)
        self.op[launched] = ops.innermost[call[launched]]
        inside, before = in_updates(trace, annotations)
        place = np.zeros(len(call), np.int64)  # in PLACES
        place[launched] = np.where(inside, 1, np.where(before, 2, 0))[call[launched]]
        self.detail = details(trace, self.op)
        self.which, self.groups = self._grouped(place)
        self.operator_work = self._operator_work()

    def use(self, ops: Operators) -> DeviceUse:
        """All groups; `self` may be dropped then, and with it what it holds of each event."""
        return DeviceUse(self.classes(), self.kernels(ops), self.operators(ops), self.matrices(), self.work())

    def classes(self) -> tuple[ClassUse, ...]:
        """All device time by class, longest first."""
        kinds = {group.kind for group in self.groups}
        uses = [self._class(kind) for kind in CLASSES if kind in kinds]
        return tuple(sorted(uses, key=lambda use: -use.us))

    def kernels(self, ops: Operators) -> tuple[KernelUse, ...]:
        """All names, longest first."""
        by_name: dict[int, list[KernelGroup]] = defaultdict(list)
        for group in self.groups:
            by_name[group.name].append(group)
        main = [max(groups, key=lambda group: group.us) for groups in by_name.values()]
        at = self._lines(ops, np.array([group.event for group in main], np.int64))
        uses = [self._kernel(groups, place) for groups, place in zip(by_name.values(), at, strict=True)]
        return tuple(sorted(uses, key=lambda use: (-use.us, use.name)))

    def operators(self, ops: Operators) -> tuple[OpUse, ...]:
        """All operators, those whose device events take longest first."""
        device_us: dict[int, float] = defaultdict(float)
        count: dict[int, int] = defaultdict(int)
        for group in self.groups:
            device_us[group.op] += group.us
            count[group.op] += group.count
        names, host_us = self.trace.names, ops.self_ns / NS
        uses = [
            OpUse(names[name], int(ops.count[name]), float(host_us[name]), device_us[name], count[name])
            for name in np.flatnonzero(ops.count).tolist()
        ]
        return tuple(sorted(uses, key=lambda use: (-use.device_us, -use.host_us, use.name)))

    def matrices(self) -> tuple[MatrixUse, ...]:
        """Matrix products by shape, longest first."""
        uses = []
        for entry in self.operator_work:
            product = entry.each.product
            if product:
                sizes = (product.batch, product.m, product.n, product.k)
                dtype = entry.each.dtype or "unknown"
                uses.append(MatrixUse(entry.op, *sizes, dtype, entry.count, entry.us, _multiple(*sizes[1:])))
        return tuple(sorted(uses, key=lambda use: -use.us))

    def work(self) -> tuple[WorkUse, ...]:
        """What was computed with which inputs, longest first."""
        uses = [
            WorkUse(
                op=entry.op,
                kind=entry.kind,
                shapes=tuple(shape for shape in entry.inputs.shapes if shape),
                dtype=entry.each.dtype,
                count=entry.count,
                us=entry.us,
                flops=entry.each.flops,
                bytes=entry.each.bytes,
            )
            for entry in self.operator_work
        ]
        return tuple(sorted(uses, key=lambda use: -use.us))

    def _lines(self, ops: Operators, events: Ints) -> list[Location | None]:
        """Lines of the user's code that launch events."""
        if not len(self.trace.functions) and not self.trace.stacks:
            return [None] * len(events)
        at: list[Location | None] = [None] * len(events)
        known = np.flatnonzero(self.call[events] != UNKNOWN)
        calls = self.call[events[known]]
        host = self.trace.calls
        inner, outer = ops.innermost[calls], ops.outermost[calls]
        place = places(self.trace, host.thread[calls], host.begin_ns[calls], inner, outer)
        for number, line in zip(known.tolist(), place.lines(self.trace), strict=True):
            at[number] = line
        return at

    def _beside(self) -> Ints:
        """(n,) nanoseconds of each device event while its device computed something else, too; no copies."""
        device = self.trace.device
        beside = np.zeros(len(device), np.int64)
        communication = events_named(self.trace.names, device.name, is_communication)
        computing = np.flatnonzero((device.kind == DeviceKind.KERNEL) & ~communication)
        for number in np.unique(device.device[computing]):
            rows = computing[device.device[computing] == number]
            if (device.stream[rows] != device.stream[rows[0]]).any():  # one stream runs one after the other
                begin, end = device.begin_ns[rows], device.ends_ns(rows)
                beside[rows] = overlapping(begin, end).within(begin, end)
        return beside

    def _unfilled(self) -> Floats:
        """(n,) share of the multiprocessors to which each kernel gives no thread block; NaN where unknown."""
        device = self.trace.device
        by_number = {entry.id: entry.multiprocessors or 0 for entry in self.trace.devices}
        alike = next(iter(by_number.values()), 0) if len(set(by_number.values())) == 1 else 0
        # Under ROCm events may count devices otherwise than their properties do.
        most = np.array([by_number.get(number, alike) for number in device.device.tolist()], np.float64)
        is_known = (device.blocks != UNKNOWN) & (most > 0)
        unfilled = 1.0 - np.minimum(1.0, device.blocks / np.where(most > 0, most, 1.0))
        return np.where(is_known, unfilled, math.nan)

    def _grouped(self, place: Ints) -> tuple[Ints, list[KernelGroup]]:
        """The group of each device event, (n,), and all groups."""
        device, names = self.trace.device, len(self.trace.names) + 1
        op_name = np.zeros(len(device), np.int64)
        known = np.flatnonzero(self.op != UNKNOWN)
        op_name[known] = self.trace.ops.name[self.op[known]]
        op_name[known] += 1
        key = (device.name.astype(np.int64) * names + op_name) * len(PLACES) + place
        keys, first, which = np.unique(key, return_index=True, return_inverse=True)
        count, duration = np.bincount(which), device.duration_ns / NS
        us = np.bincount(which, weights=duration)
        recorded = ~np.isnan(device.occupancy)
        occupied_us = np.bincount(which, weights=duration * recorded)
        occupancy_us = np.bincount(which, weights=duration * np.where(recorded, device.occupancy, 0))
        beside_us = np.bincount(which, weights=self._beside()) / NS
        unfilled_us = np.bincount(which, weights=duration * self._unfilled())
        groups = []
        for number, (code, event) in enumerate(zip(keys.tolist(), first.tolist(), strict=True)):
            name, op = divmod(code // len(PLACES), names)
            kind, dtype, tensor_core = self._kind(name, op - 1, event, PLACES[code % len(PLACES)])
            columns = (us, occupancy_us, occupied_us, beside_us, unfilled_us)
            numbers = [float(column[number]) for column in columns]
            groups.append(
                KernelGroup(
                    name, op - 1, kind, dtype, tensor_core, int(count[number]), numbers[0], numbers[1],
                    numbers[2], numbers[3], numbers[4], event,
                )
            )  # fmt: skip
        return which, groups

    def _kind(
        self, name: int, op: int, event: int, place: KernelClass | None
    ) -> tuple[KernelClass, str | None, bool | None]:
        """Class, number type and use of tensor cores of a group; `event` is one of it."""
        text = self.trace.names[name]
        kind = kernel_class(int(self.trace.device.kind[event]), text, self.trace.text(op), place)
        if kind in (KernelClass.COPY, KernelClass.MEMSET):
            return kind, None, False
        return kind, dtype_of(text) or self._input_type(kind, event), tensor_cores(text, kind)

    def _input_type(self, kind: KernelClass, event: int) -> str | None:
        """The number type of the launching operator's first tensor."""
        row = int(self.detail[event])
        if kind not in WORKING or row == UNKNOWN or self.trace.details.inputs[row] == UNKNOWN:
            return None
        types = self.trace.inputs[self.trace.details.inputs[row]].types
        return next((dtype for text in types if (dtype := input_type(text))), None)

    def _operator_work(self) -> list[OperatorWork]:
        """The work of the operators whose shapes are known; float32 inputs may be multiplied as TF32."""
        trace = self.trace
        working = np.array([group.kind in WORKING for group in self.groups], bool)
        events = np.flatnonzero((self.detail != UNKNOWN) & working[self.which])
        row, total = self.detail[events], len(trace.details)
        busy_us = np.bincount(row, weights=trace.device.duration_ns[events], minlength=total) / NS
        kind = np.zeros(total, np.int64)
        kind[row] = np.array([CLASSES.index(group.kind) for group in self.groups])[self.which[events]]
        used, is_tf32 = np.zeros(total, bool), np.zeros(total, bool)
        used[row] = True
        is_tf32[row[np.array([group.dtype == TF32 for group in self.groups], bool)[self.which[events]]]] = (
            True
        )
        rows = np.flatnonzero(used & (trace.details.inputs != UNKNOWN))
        name, inputs = trace.ops.name[trace.details.op[rows]], trace.details.inputs[rows]
        keys = np.stack((name.astype(np.int64), inputs.astype(np.int64), kind[rows], is_tf32[rows]))
        kinds, which, count = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
        us = np.bincount(which.reshape(-1), weights=busy_us[rows], minlength=kinds.shape[1])
        groups = []
        for number, (name, inputs, code, tf32) in enumerate(kinds.T.tolist()):
            each = work(trace.names[name], trace.inputs[inputs])
            if each:
                each = replace(each, dtype=TF32) if tf32 and each.dtype == "float32" else each
                cost = int(count[number]), float(us[number]), each
                groups.append(OperatorWork(trace.names[name], CLASSES[code], trace.inputs[inputs], *cost))
        return groups

    def _class(self, kind: KernelClass) -> ClassUse:
        groups = [group for group in self.groups if group.kind is kind]
        entries = [entry for entry in self.operator_work if entry.kind is kind]
        moved = [entry for entry in entries if entry.each.bytes is not None]
        dtypes: dict[str, float] = defaultdict(float)
        for group in groups:
            if group.dtype:
                dtypes[group.dtype] += group.us
        tensor = [group.us for group in groups if group.tensor_core]
        known = any(group.tensor_core is not None for group in groups)
        bytes_, bytes_us = self._moved(kind)
        return ClassUse(
            kind=kind,
            count=sum(group.count for group in groups),
            us=sum(group.us for group in groups),
            tensor_core_us=float(sum(tensor)) if known else None,
            flops=sum(entry.count * entry.each.flops for entry in entries) if entries else None,
            flops_us=float(sum(entry.us for entry in entries)),
            bytes=bytes_ if bytes_ is not None else _total_bytes(moved),
            bytes_us=bytes_us or float(sum(entry.us for entry in moved)),
            dtypes=dict(sorted(dtypes.items(), key=lambda item: -item[1])),
        )

    def _moved(self, kind: KernelClass) -> tuple[float | None, float]:
        """Bytes of copies and memsets, and the time of those that say them."""
        wanted = {KernelClass.COPY: DeviceKind.COPY, KernelClass.MEMSET: DeviceKind.MEMSET}.get(kind)
        if wanted is None:
            return None, 0.0
        device = self.trace.device
        events = np.flatnonzero((device.kind == wanted) & (device.bytes != UNKNOWN))
        moved = float(device.bytes[events].sum()) if len(events) else None
        return moved, int(device.duration_ns[events].sum()) / NS

    def _kernel(self, groups: list[KernelGroup], at: Location | None) -> KernelUse:
        """One name; its class, number type and operator are those that took longest."""
        main = max(groups, key=lambda group: group.us)
        op = max((group for group in groups if group.op != UNKNOWN), key=lambda group: group.us, default=None)
        occupied_us = sum(group.occupied_us for group in groups)
        unfilled_us = sum(group.unfilled_us for group in groups)
        return KernelUse(
            name=self.trace.names[main.name],
            kind=main.kind,
            count=sum(group.count for group in groups),
            us=sum(group.us for group in groups),
            dtype=main.dtype,
            tensor_core=main.tensor_core,
            occupancy=sum(group.occupancy_us for group in groups) / occupied_us if occupied_us else None,
            op=self.trace.text(op.op) if op else None,
            beside_us=sum(group.beside_us for group in groups),
            at=at,
            unfilled_us=None if math.isnan(unfilled_us) else unfilled_us,
        )


def _total_bytes(entries: list[OperatorWork]) -> float | None:
    return sum(entry.count * (entry.each.bytes or 0.0) for entry in entries) if entries else None


def _multiple(*sizes: int) -> int:
    """The largest power of two, up to ALIGNED, that divides all sizes."""
    multiple = ALIGNED
    while any(size % multiple for size in sizes):
        multiple //= 2
    return multiple
