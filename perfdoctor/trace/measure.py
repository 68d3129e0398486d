"""Everything that is measured of one trace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from perfdoctor.trace.activity import Activity, activity
from perfdoctor.trace.attention import Attention
from perfdoctor.trace.blocking import blocking
from perfdoctor.trace.columns import UNKNOWN, Device, DeviceKind, Ints, Trace
from perfdoctor.trace.copies import copies
from perfdoctor.trace.detours import Detours
from perfdoctor.trace.idle import Idle
from perfdoctor.trace.intervals import NS, Spans, union
from perfdoctor.trace.kernels import Kernels
from perfdoctor.trace.launches import launches, launching_calls
from perfdoctor.trace.making import Makers
from perfdoctor.trace.marks import Marks, Step, marks
from perfdoctor.trace.memory import memory
from perfdoctor.trace.naming import is_communication
from perfdoctor.trace.operators import Operators, operators
from perfdoctor.trace.order import Order
from perfdoctor.trace.peaks import peak
from perfdoctor.trace.ranks import collectives
from perfdoctor.trace.results import CopySite, Detour, RankTrace, StepTrace, Times
from perfdoctor.trace.roofline import roofs
from perfdoctor.trace.sites import bus_copies, sites
from perfdoctor.trace.streams import streams
from perfdoctor.trace.waits import waits

LAUNCH = re.compile(r"(cu|cuda|hip)\w*Launch(?!HostFunc)\w*")
INVALID = "kernels were launched and none was recorded: this says nothing about the device"
FEW_LAUNCHES = 0.5  # below this share of known launches, idle time has no known causes


def measure(trace: Trace) -> RankTrace:
    """The measures of one trace."""
    trace = _without_negative_durations(trace)
    # What needs most memory comes first, as long as little else is held.
    runtime_us, (begin_ns, end_ns) = _runtime(trace), _extent(trace)
    call, marked = launching_calls(trace), marks(trace)
    lanes, ahead = streams(trace, call), launches(trace, call)
    waiting = waits(trace, call)
    wait_calls = waiting.all
    ops = operators(trace, marked.ops, _asked(trace, call, wait_calls))
    communication = _communication(trace)
    loading = marked.dataloader()
    loader, steps = marked.spans(loading), marked.steps()
    ran_what = Kernels(trace, call, ops, marked).use(ops)
    device, invalid = _device(trace), _is_invalid(trace)
    limits = peak(device) if device else None
    ran = activity(trace.device, communication) if len(trace.device) and not invalid else None
    idle = Idle(trace, ran, call, marked, waiting) if ran else None
    blocked = blocking(trace, marked, ops, call, wait_calls, _idle_by_call(trace, idle, steps))
    copied = _copied(trace, ops, call, ran, steps, loader) if ran else ((), ())
    del ops
    inside = _inside_operators(trace, marked, loader) if ran is None else None
    return RankTrace(
        file=trace.file,
        rank=trace.rank,
        world_size=trace.world_size,
        device=device.name or None if device else None,
        devices=tuple(np.unique(trace.device.device).tolist()),
        events=trace.events,
        device_events=len(trace.device),
        begin_ns=begin_ns,
        end_ns=end_ns,
        times=ran.times(ran.begin_ns, ran.end_ns) if ran else None,
        window=ran.times(steps[0].begin_ns, max(step.end_ns for step in steps)) if ran and steps else None,
        streams=lanes,
        idle_us=idle.whole() if idle else {},
        launches=ahead,
        classes=ran_what.classes,
        kernels=ran_what.kernels,
        ops=ran_what.operators,
        copies=copies(trace),
        sites=copied[0],
        detours=copied[1],
        blocking=blocked,
        matrices=ran_what.matrices,
        work=ran_what.work,
        attention=Attention(trace, call, inside).all(_spans(steps)),
        peak=limits,
        roofs=roofs(ran_what.classes, limits),
        collectives=collectives(trace, communication),
        memory=memory(trace),
        runtime_us=runtime_us,
        dataloader_us=loader.total_ns / NS,
        dataloader_count=len(loading),
        sync_us=int(trace.calls.duration_ns[waiting.synchronize].sum()) / NS,
        steps=tuple(_step(step, ran, idle, loader, inside) for step in steps),
        skipped=trace.skipped,
        notes=_notes(trace, call, invalid, limits is not None),
        operators_us=inside.total_ns / NS if inside is not None else None,
    )


def _without_negative_durations(trace: Trace) -> Trace:
    """The trace with negative durations, written for work that never was seen to end, as zero."""
    tables = {name: getattr(trace, name) for name in ("ops", "calls", "annotations", "functions", "device")}
    mended = {
        name: replace(table, duration_ns=table.duration_ns.clip(min=0))
        for name, table in tables.items()
        if (table.duration_ns < 0).any()
    }
    return replace(trace, **mended) if mended else trace


def _asked(trace: Trace, call: Ints, wait_calls: Ints) -> Ints:
    """Numbers of the calls whose operator matters: those that launched something or blocked."""
    asked = np.zeros(len(trace.calls), bool)
    asked[call[call != UNKNOWN]] = True
    asked[wait_calls] = True
    return np.flatnonzero(asked)


def _communication(trace: Trace) -> Ints:
    """(device events,) bool: the kernels that are communication."""
    table = np.zeros(len(trace.names), bool)
    for name in np.unique(trace.device.name).tolist():
        table[name] = is_communication(trace.names[name])
    found: Ints = (trace.device.kind == DeviceKind.KERNEL) & table[trace.device.name]
    return found


def _device(trace: Trace) -> Device | None:
    """The device that ran most."""
    if not len(trace.device):
        return None
    numbers, count = np.unique(trace.device.device, return_counts=True)
    main = int(numbers[count.argmax()])
    known = next((device for device in trace.devices if device.id == main), None)
    # Under ROCm events may count devices otherwise than their properties do.
    return known if known or len({device.name for device in trace.devices}) != 1 else trace.devices[0]


def _is_invalid(trace: Trace) -> bool:
    """Whether kernels were launched and none was recorded: the profiler failed, the device was not idle."""
    launch = np.array([LAUNCH.fullmatch(name) is not None for name in trace.names], bool)
    return bool(launch[trace.calls.name].any()) and not (trace.device.kind == DeviceKind.KERNEL).any()


def _extent(trace: Trace) -> tuple[int, int]:
    """The first begin and the last end of everything in the file, ns."""
    tables = (trace.ops, trace.calls, trace.annotations, trace.functions, trace.device, trace.syncs)
    events = [table for table in tables if len(table)]
    begin = [int(table.begin_ns.min()) for table in events]
    end = [int((table.begin_ns + table.duration_ns).max()) for table in events]
    if len(trace.memory):
        begin.append(int(trace.memory.begin_ns.min()))
        end.append(int(trace.memory.begin_ns.max()))
    return min(begin, default=0), max(end, default=0)


def _runtime(trace: Trace) -> Mapping[str, tuple[int, float]]:
    """Count and summed microseconds of each runtime call, longest first."""
    count = np.bincount(trace.calls.name, minlength=len(trace.names))
    us = np.bincount(trace.calls.name, weights=trace.calls.duration_ns, minlength=len(trace.names)) / NS
    used = np.flatnonzero(count)
    longest_first = used[np.argsort(-us[used])].tolist()
    return {trace.names[name]: (int(count[name]), float(us[name])) for name in longest_first}


def _idle_by_call(trace: Trace, idle: Idle | None, steps: Sequence[Step]) -> Ints:
    if idle is None:
        return np.zeros(len(trace.calls), np.int64)
    return idle.by_call([(step.begin_ns, step.end_ns) for step in steps] or None)


def _spans(steps: Sequence[Step]) -> Spans:
    """The time that steps cover."""
    begin, end = (
        np.array([getattr(step, edge) for step in steps], np.int64) for edge in ("begin_ns", "end_ns")
    )
    return union(begin, end)


def _copied(
    trace: Trace, ops: Operators, call: Ints, ran: Activity, steps: Sequence[Step], loader: Spans
) -> tuple[tuple[CopySite, ...], tuple[Detour, ...]]:
    """The copies over the bus by place, and the tensors that come back."""
    copied, order = bus_copies(trace, ops, call, _spans(steps)), Order(trace.ops)
    if not len(copied.event):
        return (), ()
    makers = Makers(trace, order, ops.outermost[call[call != UNKNOWN]], loader)
    found = sites(trace, copied, makers, ran)
    return found, Detours(trace, copied, order, ran).all(call, steps, loader)


def _inside_operators(trace: Trace, marked: Marks, loader: Spans) -> Spans:
    """When any thread was inside an operator that is no part of loading data."""
    real = slice(None) if marked.ops is None else marked.ops
    begin = trace.ops.begin_ns[real]
    return union(begin, begin + trace.ops.duration_ns[real]).minus(loader)


def _step(
    step: Step, ran: Activity | None, idle: Idle | None, loader: Spans, inside: Spans | None
) -> StepTrace:
    begin_ns, end_ns = step.begin_ns, step.end_ns
    return StepTrace(
        name=step.name,
        begin_ns=begin_ns,
        times=ran.times(begin_ns, end_ns) if ran else Times((end_ns - begin_ns) / NS, *[0.0] * 6),
        dataloader_us=int(loader.within(begin_ns, end_ns)) / NS,
        idle_us=idle.within(begin_ns, end_ns) if idle else {},
        operators_us=int(inside.within(begin_ns, end_ns)) / NS if inside is not None else None,
    )


def _notes(trace: Trace, call: Ints, invalid: bool, known_device: bool) -> tuple[str, ...]:
    """What a reader of the measures should know."""
    notes = []
    if invalid:
        notes.append(INVALID)
    elif not len(trace.device):
        notes.append("no device event was recorded: this is a trace of the CPU")
    elif not known_device:
        notes.append("the limits of this device are not known: no shares of its peak")
    if len(call) and (call != UNKNOWN).mean() < FEW_LAUNCHES:
        notes.append("most launches are not in the trace: idle time has no known causes")
    if len(trace.ops) and not len(trace.inputs):
        notes.append("no shapes were recorded: no sizes of matrix products and no operations per second")
    return tuple(notes)
