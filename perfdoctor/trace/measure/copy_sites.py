"""Groups copies between host and device by the place in the code that makes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.copies import on_bus, parse
from perfdoctor.trace.measure.device_activity import Activity
from perfdoctor.trace.measure.dtypes import input_type
from perfdoctor.trace.measure.host_tensors import HostTensors
from perfdoctor.trace.measure.intervals import NS, Spans
from perfdoctor.trace.measure.operators import Operators, recorded_inputs
from perfdoctor.trace.measure.source_places import places
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, Inputs, Ints, Trace
from perfdoctor.trace.results import CopySite

SECOND = "aten::copy_"  # its second input is what is copied; of others, the first
SUMS = ("count", "us", "exposed_us", "idle_us")


@dataclass(frozen=True)
class BusCopies:
    """Copies over the bus whose launch is known, n of them."""

    event: Ints  # (n,) number of the device event
    call: Ints  # (n,) that launched it
    outer: Ints  # (n,) outermost operator around that, UNKNOWN where none
    begin_ns: Ints  # (n,) of that operator, or of the call
    end_ns: Ints  # (n,)
    direction: list[str]
    memory: list[str | None]
    at: list[Location | None]


def bus_copies(trace: Trace, ops: Operators, launching: Ints, steps: Spans) -> BusCopies:
    """Those launched in the judged steps or, without steps, all; `launching` as from `launching_calls`."""
    calls = trace.calls
    event = np.flatnonzero((trace.device.kind == DeviceKind.COPY) & (launching != UNKNOWN) & on_bus(trace))
    if len(steps):
        event = event[steps.hold(calls.begin_ns[launching[event]])]
    call = launching[event]
    outer = ops.outermost[call]
    begin, end = calls.begin_ns[call].copy(), calls.ends_ns(call)
    inside = np.flatnonzero(outer != UNKNOWN)
    begin[inside] = trace.ops.begin_ns[outer[inside]]
    end[inside] = begin[inside] + trace.ops.duration_ns[outer[inside]]
    place = places(trace, calls.thread[call], calls.begin_ns[call], ops.innermost[call], outer)
    ways = [parse(trace.names[name]) for name in trace.device.name[event].tolist()]
    directions, memories = [direction for direction, _ in ways], [memory for _, memory in ways]
    return BusCopies(event, call, outer, begin, end, directions, memories, place.lines(trace))


def sites(
    trace: Trace, copies: BusCopies, host_tensors: HostTensors, activity: Activity
) -> tuple[CopySite, ...]:
    """All places, the longest first. Copies that differ in number type or dimensions are apart."""
    kinds: dict[tuple[object, ...], list[CopySite]] = defaultdict(list)
    for copy in _single_copies(trace, copies, host_tensors, activity):
        kind = copy.direction, copy.host_memory, copy.op, copy.at, copy.dtype, len(copy.shape), copy.made_by
        kinds[kind].append(copy)
    return tuple(sorted(map(_sum, kinds.values()), key=lambda site: (-site.us, site.op or "")))


def _sum(copies: Sequence[CopySite]) -> CopySite:
    """One entry for copies of one kind."""
    sizes = [copy.bytes for copy in copies if copy.bytes is not None]
    sums = {name: sum(getattr(copy, name) for copy in copies) for name in SUMS}
    return replace(copies[0], **sums, bytes=sum(sizes) if len(sizes) == len(copies) else None)


def _single_copies(
    trace: Trace, copies: BusCopies, host_tensors: HostTensors, activity: Activity
) -> Iterator[CopySite]:
    """Each copy as a place of its own."""
    device = trace.device
    begin, duration = device.begin_ns[copies.event], device.duration_ns[copies.event]
    exposed = duration - activity.kernels.within(begin, begin + duration)
    inputs = recorded_inputs(trace, copies.outer)
    sizes = device.bytes[copies.event].tolist()
    creators = np.array(
        [
            host_tensors.creator(outer, size) if direction == "HtoD" else UNKNOWN
            for outer, direction, size in zip(copies.outer.tolist(), copies.direction, sizes, strict=True)
        ],
        np.int64,
    )
    first = copies.begin_ns.copy()
    known = np.flatnonzero(creators != UNKNOWN)
    first[known] = trace.ops.begin_ns[creators[known]]
    idle = (copies.end_ns - first - activity.busy.within(first, copies.end_ns)) / _together(copies)
    for number, (outer, creator) in enumerate(zip(copies.outer.tolist(), creators.tolist(), strict=True)):
        size = sizes[number]
        op = trace.op_name(outer)
        dtype, shape = _source(op, inputs[number])
        yield (
            CopySite(
                direction=copies.direction[number],
                host_memory=copies.memory[number],
                op=op,
                at=copies.at[number],
                dtype=dtype,
                shape=shape,
                made_by=trace.op_name(creator),
                count=1,
                bytes=None if size == UNKNOWN else size,
                us=int(duration[number]) / NS,
                exposed_us=int(exposed[number]) / NS,
                idle_us=float(idle[number]) / NS,
            )
        )


def _together(copies: BusCopies) -> Ints:
    """(n,) how many copies the operator around each makes, which share the time that passes in it."""
    _, which, count = np.unique(copies.outer, return_inverse=True, return_counts=True)
    together: Ints = np.where(copies.outer == UNKNOWN, 1, count[which])
    return together


def _source(op: str | None, inputs: Inputs | None) -> tuple[str | None, tuple[int, ...]]:
    """Number type and shape of what is copied, as far as they were recorded."""
    if inputs is None:
        return None, ()
    position = int(op == SECOND)
    types, shapes = inputs.types[position:], inputs.shapes[position:]
    return (input_type(types[0]) if types else None), (shapes[0] if shapes else ())
