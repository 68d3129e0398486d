"""Copies between host and device by the place in the code that makes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfdoctor.model import Location
from perfdoctor.trace.activity import Activity
from perfdoctor.trace.columns import UNKNOWN, DeviceKind, Ints, Trace
from perfdoctor.trace.copies import on_bus, parse
from perfdoctor.trace.intervals import NS, Spans
from perfdoctor.trace.making import Makers
from perfdoctor.trace.numbers import input_type
from perfdoctor.trace.operators import Operators, details
from perfdoctor.trace.places import line, places
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
    """Those launched in the marked steps or, without steps, all; `launching` as from `launching_calls`."""
    calls = trace.calls
    event = np.flatnonzero((trace.device.kind == DeviceKind.COPY) & (launching != UNKNOWN) & on_bus(trace))
    if len(steps):
        launched_ns = calls.begin_ns[launching[event]]
        event = event[steps.within(launched_ns, launched_ns + 1) > 0]
    call = launching[event]
    outer = ops.outermost[call]
    begin, end = calls.begin_ns[call].copy(), (calls.begin_ns + calls.duration_ns)[call]
    inside = np.flatnonzero(outer != UNKNOWN)
    begin[inside] = trace.ops.begin_ns[outer[inside]]
    end[inside] = begin[inside] + trace.ops.duration_ns[outer[inside]]
    place = places(trace, calls.thread[call], calls.begin_ns[call], ops.innermost[call], outer)
    at = [line(trace, *key) for key in zip(place.function.tolist(), place.stack.tolist(), strict=True)]
    named = [parse(trace.names[name]) for name in trace.device.name[event].tolist()]
    direction, memory = [way for way, _ in named], [memory for _, memory in named]
    return BusCopies(event, call, outer, begin, end, direction, memory, at)


def sites(trace: Trace, copies: BusCopies, makers: Makers, ran: Activity) -> tuple[CopySite, ...]:
    """All places, the longest first. Copies that differ in number type or dimensions are apart."""
    kinds: dict[tuple[object, ...], list[CopySite]] = defaultdict(list)
    for one in _each(trace, copies, makers, ran):
        same = one.direction, one.host_memory, one.op, one.at, one.dtype, len(one.shape), one.made_by
        kinds[same].append(one)
    return tuple(sorted(map(_merged, kinds.values()), key=lambda site: (-site.us, site.op or "")))


def _merged(alike: Sequence[CopySite]) -> CopySite:
    sizes = [one.bytes for one in alike if one.bytes is not None]
    sums = {name: sum(getattr(one, name) for one in alike) for name in SUMS}
    return replace(alike[0], **sums, bytes=sum(sizes) if len(sizes) == len(alike) else None)


def _each(trace: Trace, copies: BusCopies, makers: Makers, ran: Activity) -> list[CopySite]:
    """Each copy as a place of its own."""
    device, found = trace.device, []
    begin, duration = device.begin_ns[copies.event], device.duration_ns[copies.event]
    exposed = duration - ran.kernels.within(begin, begin + duration)
    inputs = _inputs(trace, copies.outer)
    made = np.array(
        [
            makers.of(outer) if way == "HtoD" and shapes != UNKNOWN else UNKNOWN
            for outer, way, shapes in zip(copies.outer.tolist(), copies.direction, inputs, strict=True)
        ],
        np.int64,
    )
    first = copies.begin_ns.copy()
    known = np.flatnonzero(made != UNKNOWN)
    first[known] = trace.ops.begin_ns[made[known]]
    idle = copies.end_ns - first - ran.busy.within(first, copies.end_ns)
    for number, (outer, maker) in enumerate(zip(copies.outer.tolist(), made.tolist(), strict=True)):
        size = int(device.bytes[copies.event[number]])
        dtype, shape = _source(trace, _op(trace, outer), inputs[number])
        found.append(
            CopySite(
                direction=copies.direction[number],
                host_memory=copies.memory[number],
                op=_op(trace, outer),
                at=copies.at[number],
                dtype=dtype,
                shape=shape,
                made_by=_op(trace, maker),
                count=1,
                bytes=None if size == UNKNOWN else size,
                us=int(duration[number]) / NS,
                exposed_us=int(exposed[number]) / NS,
                idle_us=int(idle[number]) / NS,
            )
        )
    return found


def _inputs(trace: Trace, op: Ints) -> list[int]:
    """Numbers of what was recorded of the operators' inputs, (n,); UNKNOWN where nothing was."""
    rows = details(trace, op)
    rows[op == UNKNOWN] = UNKNOWN
    return [int(trace.details.inputs[row]) if row != UNKNOWN else UNKNOWN for row in rows.tolist()]


def _source(trace: Trace, op: str | None, row: int) -> tuple[str | None, tuple[int, ...]]:
    """Number type and shape of what is copied, as far as they were recorded."""
    if row == UNKNOWN:
        return None, ()
    inputs, position = trace.inputs[row], int(op == SECOND)
    types, shapes = inputs.types[position:], inputs.shapes[position:]
    return (input_type(types[0]) if types else None), (shapes[0] if shapes else ())


def _op(trace: Trace, row: int) -> str | None:
    return None if row == UNKNOWN else trace.names[trace.ops.name[row]]
