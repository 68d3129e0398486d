"""Measures the high-water mark of the device's memory."""

from __future__ import annotations

import numpy as np

from perfdoctor.trace.parse.columns import UNKNOWN, Trace
from perfdoctor.trace.results import MemoryUse


def memory(trace: Trace) -> MemoryUse | None:
    """The most memory that any one device had in use; None where the trace does not say.

    Traces older than torch 1.9 record changes only: how much was in use before them is not known.
    """
    events = trace.memory
    known = np.flatnonzero(events.on_device & (events.allocated != UNKNOWN))
    if not len(known):
        return None
    most = known[np.argmax(events.allocated[known])]
    device = int(events.device[most])
    reserved = events.reserved[known][events.device[known] == device]
    total = next((entry.memory_bytes for entry in trace.devices if entry.id == device), None)
    return MemoryUse(
        allocated_bytes=int(events.allocated[most]),
        reserved_bytes=int(reserved.max()) if reserved.max() != UNKNOWN else None,
        total_bytes=total,
    )
