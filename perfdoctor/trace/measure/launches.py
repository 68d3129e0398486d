"""Ties device events to the runtime calls that launched them, and measures how far the host runs ahead."""

from __future__ import annotations

import re

import numpy as np

from perfdoctor.trace.lost import CUT_OFF, INVALID, UNKNOWN_KIND, UNREAD, UNRECORDED
from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.measure.intervals import NS
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, Ints, Trace
from perfdoctor.trace.results import Launches

LAUNCH = re.compile(r"(cu|cuda|hip)\w*Launch(?!HostFunc)\w*|urEnqueueKernelLaunch\w*")

# Operators that only devices have, and what NCCL's process group annotates.
ON_DEVICE = re.compile(
    r"aten::(_?cudnn_(?!is_acceptable)|miopen_|_thnn_fused_|_(flash|efficient|cudnn)_attention_)\w+|triton_\w+|"
    r"nccl:.*"
)


def launching_calls(trace: Trace) -> Ints:
    """(device events,) int32: the number of the runtime call that launched each, UNKNOWN if not in the trace.

    Both carry the same correlation; all events of a replayed graph carry that of the one call. Each process
    counts its own: in a file that holds several, a number that more than one has used tells nothing.
    """
    calls = trace.calls.correlation
    launching = np.full(len(trace.device), UNKNOWN, np.int32)
    if not len(calls) or not len(launching):
        return launching
    order = np.argsort(calls, kind="stable") if (calls[1:] < calls[:-1]).any() else np.arange(len(calls))
    wanted = trace.device.correlation
    place = np.minimum(np.searchsorted(calls, wanted, sorter=order), len(calls) - 1)
    call = order[place]
    hit = (calls[call] == wanted) & (wanted > 0)  # the device's library counts from 1
    hit &= ~np.isin(wanted, _of_several_processes(trace))
    launching[hit] = call[hit]
    return launching


def _of_several_processes(trace: Trace) -> Ints:
    """The correlations that calls of more than one process carry."""
    numbers = {process: number for number, (process, _) in enumerate(trace.threads)}
    process = np.array([numbers[process] for process, _ in trace.threads], np.int64)[trace.calls.thread]
    if (process == process[0]).all():
        return np.empty(0, np.int64)
    once = np.unique(np.stack((trace.calls.correlation, process)), axis=1)[0]
    correlation, count = np.unique(once, return_counts=True)
    several: Ints = correlation[count > 1]
    return several


def lost_kernels(trace: Trace) -> str | None:
    """Why the trace says nothing about a device that was not idle, one of `LOST`; None where it does.

    A file that is cut loses the device's work first, which is written last. Whether a device that it
    describes was recorded at all nobody can tell then.
    """
    if (trace.device.kind == DeviceKind.KERNEL).any():
        return None
    launched = bool(events_named(trace.names, trace.calls.name, LAUNCH.fullmatch).any())
    if trace.skipped.device_events and (launched or not len(trace.device)):
        return UNREAD
    if trace.skipped.is_cut and (launched or (trace.devices and not len(trace.device))):
        return CUT_OFF
    if launched:
        return INVALID
    if len(trace.device):  # copies alone
        return None
    if trace.unknown and len(trace.calls):
        return UNKNOWN_KIND
    return UNRECORDED if _ran_on_device(trace) else None


def _ran_on_device(trace: Trace) -> bool:
    """Whether anything but the device's own work tells that there is one."""
    names = (trace.ops.name, trace.annotations.name)
    named = any(events_named(trace.names, each, ON_DEVICE.fullmatch).any() for each in names)
    return named or bool(trace.memory.on_device.any())


def launches(trace: Trace, call: Ints) -> Launches | None:
    """Measure how launches and kernels follow each other; None without launches.

    `call` as from `launching_calls`. The delay of a kernel counts from the end of its call to its begin;
    clocks of host and device are aligned to about a microsecond, so it can be negative.
    """
    device, calls = trace.device, trace.calls
    known = np.flatnonzero((call != UNKNOWN) & (device.kind == DeviceKind.KERNEL)).astype(np.int32)
    if not len(known):
        return None
    launch = call[known]
    begin, issued = device.begin_ns[known], calls.begin_ns[launch]
    delay = begin - calls.ends_ns(launch)
    waiting_from, waiting_to = np.sort(issued), np.sort(np.maximum(begin, issued))
    waiting = np.arange(1, len(known) + 1) - np.searchsorted(waiting_to, waiting_from, side="right")
    stretch_ns = int(waiting_to[-1] - waiting_from[0])
    launching = np.zeros(len(calls), bool)
    launching[call[call != UNKNOWN]] = True
    return Launches(
        count=len(known),
        delay_median_us=float(np.median(delay)) / NS,
        delay_mean_us=float(delay.mean()) / NS,
        delay_p90_us=float(np.percentile(delay, 90)) / NS,
        queue_mean=float((waiting_to - waiting_from).sum()) / stretch_ns if stretch_ns else 0.0,
        queue_max=int(waiting.max()),
        call_us=float(calls.duration_ns[launching].sum()) / NS,
    )
