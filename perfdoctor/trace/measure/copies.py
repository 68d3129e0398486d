"""Groups copies between memories by direction and kind of host memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.measure.intervals import NS
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, Flags, Trace
from perfdoctor.trace.results import ON_BUS, CopyUse

# "Memcpy HtoD (...)", or "CopyHostToDevice" as roctracer calls it. On XPU "Memcpy M2D (...)": memory that no
# device's runtime allocated, which is the host's, is M there.
DIRECTION = re.compile(r"\b([HDPAM])(?:to|2)([HDPAM])\b|^Copy(H|D)\w+To(H|D)\w+$")
MEMORIES = ("pageable", "pinned", "unified")


def parse(name: str) -> tuple[str, str | None]:
    """Direction and kind of host memory by an event's name: "Memcpy HtoD (Pageable -> Device)"."""
    direction = DIRECTION.search(name)
    lower = name.lower()
    memory = next((memory for memory in MEMORIES if memory in lower), None)
    # ROCm says only "Host", and "Memcpy PtoP" names none.
    ends = [end.replace("M", "H") for end in direction.groups() if end] if direction else []
    return "to".join(ends) or "unknown", memory


def on_bus(trace: Trace) -> Flags:
    """(device events,) bool: those named like copies between host and device."""
    return events_named(trace.names, trace.device.name, lambda name: parse(name)[0] in ON_BUS)


def copies(trace: Trace) -> tuple[CopyUse, ...]:
    """All copies, the longest first. Bytes are None where any event of a kind does not say them."""
    device = trace.device
    events = np.flatnonzero(device.kind == DeviceKind.COPY)
    kinds: dict[tuple[str, str | None], list[int]] = {}
    for name in np.unique(device.name[events]).tolist():
        kinds.setdefault(parse(trace.names[name]), []).append(name)
    uses = [_use(trace, direction, memory, names) for (direction, memory), names in kinds.items()]
    return tuple(sorted(uses, key=lambda use: -use.us))


def _use(trace: Trace, direction: str, memory: str | None, names: Sequence[int]) -> CopyUse:
    device = trace.device
    rows = np.flatnonzero(np.isin(device.name, names) & (device.kind == DeviceKind.COPY))
    moved = device.bytes[rows]
    return CopyUse(
        direction=direction,
        host_memory=memory,
        count=len(rows),
        bytes=None if (moved == UNKNOWN).any() else int(moved.sum()),
        us=int(device.duration_ns[rows].sum()) / NS,
    )
