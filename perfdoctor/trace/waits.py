"""Runtime calls that make the host wait for the device."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfdoctor.trace.columns import UNKNOWN, DeviceKind, Ints, Trace

# Calls that do nothing but wait: cudaStreamSynchronize, hipDeviceSynchronize, cuEventSynchronize, ...
SYNCHRONIZE = re.compile(r"(cu|cuda|hip)[A-Z]\w*Synchronize(_\w+)?")
# Freeing waits for the whole device (CUDA programming guide, implicit synchronization).
FREE = re.compile(r"(cuda|hip)(Free|FreeHost|HostFree)|cuMem(Free|FreeHost)(_v\d)?")
# Copies that return when they are done. hipMemcpyWithStream copies on a stream and waits for it.
COPY = re.compile(r"(cu|cuda|hip)Memcpy(?!\w*Async)\w*")
PAGEABLE = "Pageable"  # such a copy is staged through the driver while the call lasts, Async or not


@dataclass(frozen=True)
class Waits:
    """Numbers of the blocking runtime calls of a trace."""

    synchronize: Ints  # calls that only wait
    free: Ints
    copy: Ints  # copies that hold the host until they are done or staged

    all: Ints  # of every kind, in ascending order


def waits(trace: Trace, call: Ints) -> Waits:
    """The blocking calls; `call` as from `launching_calls`."""
    device = trace.device
    pageable = np.array([PAGEABLE in name for name in trace.names], bool)
    synchronize, free, copy = (_named(trace, wanted) for wanted in (SYNCHRONIZE, FREE, COPY))
    copy[call[(device.kind == DeviceKind.COPY) & pageable[device.name] & (call != UNKNOWN)]] = True
    return Waits(*(np.flatnonzero(calls) for calls in (synchronize, free, copy, synchronize | free | copy)))


def _named(trace: Trace, wanted: re.Pattern[str]) -> Ints:
    """(calls,) bool: whose whole name fits."""
    table = np.array([wanted.fullmatch(name) is not None for name in trace.names], bool)
    return table[trace.calls.name]
