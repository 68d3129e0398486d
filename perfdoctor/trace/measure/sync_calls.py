"""Finds the runtime calls that make the host wait for the device."""

from __future__ import annotations

import re

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, Ints, Trace

# Calls that do nothing but wait: cudaStreamSynchronize, hipDeviceSynchronize, cuEventSynchronize, ..., and
# urQueueFinish, urEventWait, zeEventHostSynchronize; what is enqueued to wait makes only the device wait.
SYNCHRONIZE = re.compile(
    r"(cu|cuda|hip)[A-Z]\w*Synchronize(_\w+)?|ur(?!Enqueue)\w*(Finish|Wait)|ze[A-Z]\w*Synchronize"
)
# Freeing waits for the whole device (CUDA programming guide, implicit synchronization).
FREE = re.compile(r"(cuda|hip)(Free|FreeHost|HostFree)|cuMem(Free|FreeHost)(_v\d)?")
# Copies that return when they are done. hipMemcpyWithStream copies on a stream and waits for it.
COPY = re.compile(r"(cu|cuda|hip)Memcpy(?!\w*Async)\w*")
PAGEABLE = "Pageable"  # such a copy is staged through the driver while the call lasts, Async or not


@dataclass(frozen=True)
class SyncCalls:
    """Numbers of the blocking runtime calls of a trace."""

    synchronize: Ints  # calls that only wait
    free: Ints
    copy: Ints  # copies that hold the host until they are done or staged

    all: Ints  # of every kind, in ascending order


def sync_calls(trace: Trace, call: Ints) -> SyncCalls:
    """Find the blocking calls; `call` as from `launching_calls`."""
    synchronize, free, copy = (
        events_named(trace.names, trace.calls.name, pattern.fullmatch)
        for pattern in (SYNCHRONIZE, FREE, COPY)
    )
    pageable = events_named(trace.names, trace.device.name, lambda name: PAGEABLE in name)
    copy[call[(trace.device.kind == DeviceKind.COPY) & pageable & (call != UNKNOWN)]] = True
    return SyncCalls(
        *(np.flatnonzero(calls) for calls in (synchronize, free, copy, synchronize | free | copy))
    )
