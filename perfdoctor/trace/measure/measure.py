"""Measures one trace: calls every measure of this folder, in an order that saves memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from perfdoctor.model.note import Note, Remark
from perfdoctor.trace.measure.annotations import Annotations, ProfilerStep, collect_annotations, edges
from perfdoctor.trace.measure.attention import Attention
from perfdoctor.trace.measure.blocking_calls import blocking
from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.measure.by_thread import ByThread
from perfdoctor.trace.measure.collectives import collectives
from perfdoctor.trace.measure.computing import computing_and_loading
from perfdoctor.trace.measure.copies import copies
from perfdoctor.trace.measure.copy_sites import bus_copies, sites
from perfdoctor.trace.measure.counted import counted
from perfdoctor.trace.measure.device_activity import Activity, activity
from perfdoctor.trace.measure.device_peaks import peak
from perfdoctor.trace.measure.host_tensors import HostTensors
from perfdoctor.trace.measure.host_work import host_work
from perfdoctor.trace.measure.idle import Idle
from perfdoctor.trace.measure.intervals import NOTHING, NS, Spans, either, union
from perfdoctor.trace.measure.kernel_classes import is_communication
from perfdoctor.trace.measure.kernels import DeviceUse, Kernels
from perfdoctor.trace.measure.launches import launches, launching_calls, lost_kernels
from perfdoctor.trace.measure.marked_steps import MarkedSteps, marked_steps
from perfdoctor.trace.measure.memory import memory
from perfdoctor.trace.measure.operators import Operators, operators
from perfdoctor.trace.measure.roofline import roofs
from perfdoctor.trace.measure.round_trips import RoundTrips
from perfdoctor.trace.measure.step_lanes import step_lanes
from perfdoctor.trace.measure.streams import streams
from perfdoctor.trace.measure.sync_calls import SyncCalls, sync_calls
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceKind, DeviceProperties, Flags, Ints, Trace
from perfdoctor.trace.results import CopySite, CopyUse, RankTrace, RoundTrip, StepTrace, Times

FEW_LAUNCHES = 0.5  # below this share of known launches, idle time has no known causes


def measure(trace: Trace) -> RankTrace:
    """Measure one trace."""
    trace = _without_negative_durations(trace)
    # What needs most memory comes first, as long as little else is held.
    runtime_us, call, annotated = _runtime(trace), launching_calls(trace), collect_annotations(trace)
    stream_uses, ahead, waits = streams(trace, call), launches(trace, call), sync_calls(trace, call)
    lost, (begin_ns, end_ns) = lost_kernels(trace), _extent(trace, waits)
    steps = marked_steps(trace, annotated, call, by_device=lost is None)
    judged = _spans(steps.judged())
    ops, uses, moved, blocking_calls = _counted_work(trace, annotated, call, waits, judged)
    communication, device, loading = _communication(trace), _device(trace), annotated.dataloader()
    loader = annotated.spans(loading)
    limits = peak(device) if device else None
    active = activity(trace.device, communication) if len(trace.device) and lost is None else None
    copy_sites, round_trips = _bus_traffic(trace, ops, call, active, steps, loader) if active else ((), ())
    idle = Idle(trace, active, call, annotated, waits) if active else None
    blocked = blocking(trace, annotated, ops, call, blocking_calls, _idle_by_call(trace, idle, steps))
    del ops
    inside, waited = computing_and_loading(trace, annotated, loader) if active is None else (None, loader)
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
        times=active.times(active.begin_ns, active.end_ns) if active else None,
        window=_window(active, steps.marked) if active and steps.marked else None,
        streams=stream_uses,
        idle_us=idle.whole() if idle else {},
        launches=ahead,
        classes=uses.classes,
        kernels=uses.kernels,
        ops=uses.operators,
        copies=moved,
        sites=copy_sites,
        round_trips=round_trips,
        blocking=blocked,
        matrices=uses.matrices,
        work=uses.work,
        attention=Attention(trace, call, inside).all(judged),
        peak=limits,
        roofs=roofs(uses.classes, limits),
        collectives=collectives(trace, communication),
        memory=memory(trace),
        runtime_us=runtime_us,
        dataloader_us=waited.total_ns / NS,
        dataloader_count=len(loading),
        sync_us=int(trace.calls.duration_ns[waits.synchronize].sum()) / NS,
        steps=_steps(steps, active, idle, waited, inside),
        skipped=trace.skipped,
        notes=_notes(trace, call, lost, limits is not None),
        operators_us=inside.total_ns / NS if inside is not None else None,
        host_work=host_work(trace, annotated, judged, loader) if active is None else (),
        pause_us=_longest_ns(active.busy if active else either(inside or NOTHING, waited)) / NS,
        lanes=step_lanes(trace, annotated, steps.marked, active, waits, loader) if active else None,
    )


def _counted_work(
    trace: Trace, annotated: Annotations, call: Ints, waits: SyncCalls, steps: Spans
) -> tuple[Operators, DeviceUse, tuple[CopyUse, ...], Ints]:
    """Operators, what was launched, copies, numbers of the blocking calls: of these steps, if any."""
    per_step = counted(trace, annotated.ops, call, steps)
    ops = operators(trace, per_step.ops, _calls_of_interest(trace, call, waits))
    uses = Kernels(per_step.trace, per_step.launching, ops, annotated).use(ops)
    return ops, uses, copies(per_step.trace), per_step.of_calls(waits.all)


def _without_negative_durations(trace: Trace) -> Trace:
    """The trace with negative durations, written for work that never was seen to end, as zero."""
    tables = {name: getattr(trace, name) for name in ("ops", "calls", "annotations", "functions", "device")}
    repaired = {
        name: replace(table, duration_ns=table.duration_ns.clip(min=0))
        for name, table in tables.items()
        if (table.duration_ns < 0).any()
    }
    return replace(trace, **repaired) if repaired else trace


def _calls_of_interest(trace: Trace, call: Ints, waits: SyncCalls) -> Ints:
    """Numbers of the calls whose operator matters: those that launched something or blocked."""
    matters = np.zeros(len(trace.calls), bool)
    matters[call[call != UNKNOWN]] = True
    matters[waits.all] = True
    return np.flatnonzero(matters)


def _communication(trace: Trace) -> Flags:
    """(device events,) bool: the kernels that are communication."""
    named = events_named(trace.names, trace.device.name, is_communication)
    named &= trace.device.kind == DeviceKind.KERNEL
    return named


def _device(trace: Trace) -> DeviceProperties | None:
    """The device that ran most."""
    if not len(trace.device):
        return None
    numbers, count = np.unique(trace.device.device, return_counts=True)
    main = int(numbers[count.argmax()])
    known = next((device for device in trace.devices if device.id == main), None)
    # Under ROCm events may count devices otherwise than their properties do.
    return known if known or len({device.name for device in trace.devices}) != 1 else trace.devices[0]


def _extent(trace: Trace, waits: SyncCalls) -> tuple[int, int]:
    """The first begin and the last end of everything in the file, ns.

    A profiler that stops waits for all devices, and starts up those that nobody has used: where none worked,
    that is no time of the script.
    """
    tables = (trace.ops, trace.calls, trace.annotations, trace.functions, trace.device, trace.syncs)
    events = [table for table in tables if len(table)]
    begin = [int(table.begin_ns.min()) for table in events]
    end = [int(table.ends_ns().max()) for table in events]
    if len(trace.memory):
        begin.append(int(trace.memory.begin_ns.min()))
        end.append(int(trace.memory.begin_ns.max()))
    last_end = max(end, default=0)
    stops = trace.calls.begin_ns[waits.synchronize]
    done = [int(table.ends_ns().max()) for table in (trace.ops, trace.annotations) if len(table)]
    if done and not len(trace.device):
        last_end = int(stops[stops >= max(done)].min(initial=last_end))
    return min(begin, default=0), last_end


def _runtime(trace: Trace) -> Mapping[str, tuple[int, float]]:
    """Count and summed microseconds of each runtime call, longest first."""
    count = np.bincount(trace.calls.name, minlength=len(trace.names))
    us = np.bincount(trace.calls.name, weights=trace.calls.duration_ns, minlength=len(trace.names)) / NS
    used = np.flatnonzero(count)
    longest_first = used[np.argsort(-us[used])].tolist()
    return {trace.names[name]: (int(count[name]), float(us[name])) for name in longest_first}


def _idle_by_call(trace: Trace, idle: Idle | None, steps: MarkedSteps) -> Ints:
    if idle is None:
        return np.zeros(len(trace.calls), np.int64)
    judged = steps.judged(by_device=True)
    whole = np.array([idle.device.begin_ns]), np.array([idle.device.end_ns])
    return idle.by_call(*(edges(judged) if judged else whole))


def _spans(steps: Sequence[ProfilerStep]) -> Spans:
    """The time that steps cover."""
    return union(*edges(steps))


def _window(active: Activity, steps: Sequence[ProfilerStep]) -> Times:
    """The measures of all steps and what lies between them."""
    return active.times(steps[0].begin_ns, max(step.end_ns for step in steps))


def _bus_traffic(
    trace: Trace, ops: Operators, call: Ints, active: Activity, steps: MarkedSteps, loader: Spans
) -> tuple[tuple[CopySite, ...], tuple[RoundTrip, ...]]:
    """The copies over the bus by place, and the tensors that come back."""
    copies, by_thread = bus_copies(trace, ops, call, _spans(steps.judged())), ByThread(trace.ops)
    if not len(copies.event):
        return (), ()
    around = ops.outermost[call[call != UNKNOWN]]
    host_tensors = HostTensors(trace, by_thread, around[around != UNKNOWN], loader)
    copy_sites = sites(trace, copies, host_tensors, active)
    return copy_sites, RoundTrips(trace, copies, by_thread, active).all(call, steps.judged(), loader)


def _longest_ns(spans: Spans) -> int:
    """The longest time between two of them."""
    gaps = spans.gaps()
    return int((gaps.end - gaps.begin).max(initial=0))


def _steps(
    steps: MarkedSteps, active: Activity | None, idle: Idle | None, loader: Spans, inside: Spans | None
) -> tuple[StepTrace, ...]:
    """Each step, all measured at once: there may be many thousand."""
    by_host, on_device = edges(steps.marked), edges(steps.worked)
    spans_us = ((by_host[1] - by_host[0]) / NS).tolist()
    columns = zip(
        steps.marked,
        active.each(*on_device) if active else [Times(span_us, *[0.0] * 6) for span_us in spans_us],
        (loader.within(*by_host) / NS).tolist(),
        idle.each(*on_device) if idle else [{}] * len(spans_us),
        (inside.within(*by_host) / NS).tolist() if inside is not None else [None] * len(spans_us),
        steps.begun,
        strict=True,
    )
    return tuple(
        StepTrace(step.name, step.begin_ns, times, dataloader_us, idle_us, operators_us, begun)
        for step, times, dataloader_us, idle_us, operators_us, begun in columns
    )


def _notes(trace: Trace, call: Ints, lost: str | None, known_device: bool) -> tuple[Remark, ...]:
    """What a reader of the measures should know."""
    notes: list[Remark] = []
    if lost is not None:
        notes.append(lost)
    elif not len(trace.device):
        notes.append(Note("device-unused" if len(trace.calls) else "no-device-events"))
    elif not known_device:
        notes.append(Note("unknown-device"))
    processes = {trace.threads[number][0] for number in np.unique(trace.ops.thread)}
    if len(processes) > 1:
        notes.append(Note("several-processes", {"processes": len(processes)}))
    if len(call) and (call != UNKNOWN).mean() < FEW_LAUNCHES:
        notes.append(Note("few-launches"))
    if len(trace.ops) and not len(trace.inputs):
        notes.append(Note("no-shapes"))
    return tuple(notes)
