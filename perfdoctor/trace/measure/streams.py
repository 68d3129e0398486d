"""Measures the gaps on each stream, by what the next event waited for."""

from __future__ import annotations

import numpy as np

from perfdoctor.trace.measure.intervals import NS, union
from perfdoctor.trace.parse.columns import UNKNOWN, Ints, Trace
from perfdoctor.trace.results import StreamUse

KERNEL_WAIT_NS = 30_000  # two kernels queued behind each other are closer than this


def streams(trace: Trace, call: Ints) -> tuple[StreamUse, ...]:
    """Every stream that ran something; `call` as from `launching_calls`. Longest busy first.

    A gap lies between an event and the latest end before it. It is the host's where the call that launched
    the event began after that end, a kernel's where it is shorter than 30 us, else another: the classes of
    Holistic Trace Analysis.
    """
    device = trace.device
    begin, uses = device.begin_ns, []
    in_order = bool((begin[1:] >= begin[:-1]).all())
    for number in np.unique(device.device).tolist():
        of_device = device.device == number
        for stream in np.unique(device.stream[of_device]).tolist():
            events = np.flatnonzero(of_device & (device.stream == stream)).astype(np.int32)
            events = events if in_order else events[np.argsort(begin[events], kind="stable")]
            uses.append(_stream(trace, call, events))
    return tuple(sorted(uses, key=lambda use: -use.busy_us))


def _stream(trace: Trace, call: Ints, events: Ints) -> StreamUse:
    """One stream; its events by begin."""
    device = trace.device
    begin, end = device.begin_ns[events], device.ends_ns(events)
    before = np.maximum.accumulate(end)[:-1]
    gap = begin[1:] - before
    real = np.flatnonzero(gap > 0)
    gap, before, launch = gap[real], before[real], call[events[1:][real]]
    known = launch != UNKNOWN
    late = np.zeros(len(gap), bool)
    late[known] = trace.calls.begin_ns[launch[known]] > before[known]
    short = ~late & (gap < KERNEL_WAIT_NS)
    return StreamUse(
        device=int(device.device[events[0]]),
        stream=int(device.stream[events[0]]),
        count=len(events),
        busy_us=union(begin, end).total_ns / NS,
        host_wait_us=int(gap[late].sum()) / NS,
        kernel_wait_us=int(gap[short].sum()) / NS,
        other_gap_us=int(gap[~late & ~short].sum()) / NS,
    )
