"""Measures when the device was busy, and with what, in any stretch of time."""

from __future__ import annotations

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.intervals import NS, Spans, either, union
from perfdoctor.trace.parse.columns import DeviceEvents, DeviceKind, Flags, Ints
from perfdoctor.trace.results import Times


@dataclass(frozen=True)
class Activity:
    """When any stream of any device was busy, by kind of work."""

    busy: Spans  # any event
    kernels: Spans
    compute: Spans  # kernels that are not communication
    comm: Spans  # kernels that are
    copies: Spans  # copies and memsets
    compute_or_copies: Spans
    begin_ns: int  # of the first event
    end_ns: int  # of the last to end

    def times(self, begin_ns: int, end_ns: int) -> Times:
        """The measures of one stretch of time."""
        return self.each(np.array([begin_ns]), np.array([end_ns]))[0]

    def each(self, begin_ns: Ints, end_ns: Ints) -> list[Times]:
        """The same for n stretches of time: two (n,) int64. Overlaps by |A and B| = |A| + |B| - |A or B|."""
        busy, kernels, compute, comm, copies, either = (
            spans.within(begin_ns, end_ns)
            for spans in (
                self.busy, self.kernels, self.compute, self.comm, self.copies, self.compute_or_copies,
            )
        )  # fmt: skip
        measured = {
            "span_us": end_ns - begin_ns,
            "busy_us": busy,
            "compute_us": compute,
            "comm_us": comm,
            "overlap_us": compute + comm - kernels,
            "copy_us": copies,
            "copy_overlap_us": compute + copies - either,
        }
        rows = zip(*((column / NS).tolist() for column in measured.values()), strict=True)
        return [Times(**dict(zip(measured, row, strict=True))) for row in rows]


def activity(device: DeviceEvents, communication: Flags) -> Activity:
    """The unions of device events, one or more. `communication`: (n,) bool, the kernels that are."""
    begin, end = device.begin_ns, device.ends_ns()
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
        kernel, communication = device.kind[order] == DeviceKind.KERNEL, communication[order]
    else:
        kernel = device.kind == DeviceKind.KERNEL
    compute = kernel & ~communication
    computing = union(begin[compute], end[compute])
    communicating = union(begin[communication], end[communication])
    copying = union(begin[~kernel], end[~kernel])
    kernels = either(computing, communicating)
    busy = either(kernels, copying)
    return Activity(
        busy=busy,
        kernels=kernels,
        compute=computing,
        comm=communicating,
        copies=copying,
        compute_or_copies=either(computing, copying) if len(communicating) else busy,  # held once
        begin_ns=int(begin.min()),
        end_ns=int(end.max()),
    )
