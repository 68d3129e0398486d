"""Draws what perfdoctor knows of a trace's time as slices and counters, to be shown beside the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median_low

import numpy as np

from perfdoctor.facts.decode import Json, number, processes
from perfdoctor.facts.host.resources import growth
from perfdoctor.facts.steps.boundaries import COLUMNS
from perfdoctor.runs.records import Rows
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.trace.measure.annotations import collect_annotations
from perfdoctor.trace.measure.device_activity import activity
from perfdoctor.trace.measure.idle import Idle
from perfdoctor.trace.measure.intervals import union
from perfdoctor.trace.measure.launches import launching_calls, lost_kernels
from perfdoctor.trace.measure.sync_calls import sync_calls
from perfdoctor.trace.parse.columns import Trace
from perfdoctor.trace.perfetto import Counter, Slice, TrackEvent
from perfdoctor.trace.results import IdleCause

MARGIN_NS = 3 * 10**9  # around the trace: samples are a second apart
SHORTEST_IDLE_NS = 1_000  # gaps between kernels below it are no idling to look at
MOST_IDLES = 20_000  # the longest: more slices on one track are a smear
RATES = {
    "CPU cores, training process": ("cpu_s", ("main",)),
    "CPU cores, loader workers": ("cpu_s", ("worker",)),
    "CPU cores, all processes": ("cpu_s", ("main", "worker", "other")),
    "disk read, bytes/s": ("read_bytes", ("main", "worker", "other")),
    "disk written, bytes/s": ("written_bytes", ("main", "worker", "other")),
}
NET = {"network received, bytes/s": "received_bytes", "network sent, bytes/s": "sent_bytes"}
GPU = {"utilisation": "utilisation", "memory, bytes": "memory_used_bytes", "power, W": "power_w"}


def of_trace(trace: Trace) -> list[TrackEvent]:
    """When the device was busy, and why not, from the trace itself; nothing where that was not recorded."""
    if lost_kernels(trace):
        return []
    device = trace.device
    busy = union(device.begin_ns, device.begin_ns + device.duration_ns)
    if not len(busy):
        return []
    gaps = busy.gaps()
    lengths = gaps.end - gaps.begin
    longest = np.sort(lengths)[-MOST_IDLES:]
    kept = lengths >= max(SHORTEST_IDLE_NS, int(longest[0]) if len(longest) else 0)
    idle = list(zip(gaps.begin[kept].tolist(), gaps.end[kept].tolist(), strict=True))
    borders = [int(busy.begin[0]), *(at for gap in idle for at in gap), int(busy.end[-1])]
    causes = _causes(trace)
    return [
        Slice("device", _main_cause(causes, begin, end) if number % 2 else "busy", begin, end)
        for number, (begin, end) in enumerate(pairwise(borders))
    ]


def _causes(trace: Trace) -> Idle:
    call = launching_calls(trace)
    # of what kind the work is says nothing here
    ran = activity(trace.device, np.zeros(len(trace.device), bool))
    return Idle(trace, ran, call, collect_annotations(trace), sync_calls(trace, call))


def _main_cause(causes: Idle, begin_ns: int, end_ns: int) -> str:
    """What most of a stretch of idle time is charged to."""
    charged = causes.within(begin_ns, end_ns)
    return max(charged, key=lambda cause: charged[cause], default=IdleCause.UNKNOWN).label


def shift_ns(trace: Trace, marks_ns: Mapping[str, int]) -> int | None:
    """What to add to the run's clock to get the trace's, or None where nothing ties them together.

    `marks_ns` says when annotations began on the run's clock.
    """
    names = trace.annotations.name.tolist()
    begins = trace.annotations.begin_ns.tolist()
    first: dict[str, int] = {}
    for name, begin in zip(names, begins, strict=True):
        first.setdefault(trace.names[name], begin)
    shifts = [first[name] - at for name, at in marks_ns.items() if name in first]
    return median_low(shifts) if shifts else None


def extent_ns(trace: Trace) -> tuple[int, int]:
    """The first begin and the last end of anything in a trace."""
    tables = [table for table in (trace.annotations, trace.ops, trace.calls, trace.device) if len(table)]
    begins = [int(table.begin_ns.min()) for table in tables]
    ends = [int((table.begin_ns + table.duration_ns).max()) for table in tables]
    return min(begins, default=0), max(ends, default=0)


def of_run(records: RunRecords, rank: int, shift: int, begin_ns: int, end_ns: int) -> list[TrackEvent]:
    """What a run recorded around a trace of `rank`; `begin_ns` and `end_ns` are on the trace's clock."""

    def near(at_ns: float) -> bool:
        return begin_ns - MARGIN_NS <= at_ns + shift <= end_ns + MARGIN_NS

    recorded = records.ranks.get(rank)
    events: list[TrackEvent] = []
    if recorded is not None:
        events += _steps(recorded, shift, near)
        events += _batches(recorded.loader, shift, near)
    host = [sample for sample in records.host if near(number(sample.get("t_ns")))]
    events += _host(host, shift)
    for index, rows in sorted(records.gpus.items()):
        events += _gpu(index, [row for row in rows if near(number(row.get("t_ns")))], shift)
    return events


Near = Callable[[float], bool]


def _steps(rank: RankRecords, shift: int, near: Near) -> Iterator[TrackEvent]:
    """Each row of the step record, and its phases: lengths are measured, the order is the usual one."""
    if rank.steps is None or not {"begin_ns", "end_ns", *COLUMNS.values()} <= set(
        rank.steps.dtype.names or ()
    ):
        return
    for row in rank.steps:
        begin, end = int(row["begin_ns"]), int(row["end_ns"])
        if not near(begin) or end <= begin:
            continue
        yield Slice("steps", "step", begin + shift, end + shift)
        at = begin
        for phase, column in COLUMNS.items():
            until = min(end, at + max(0, int(row[column])))
            if until > at:
                yield Slice("phases (in usual order)", phase.value, at + shift, until + shift)
            at = until
        if at < end:
            yield Slice("phases (in usual order)", "other", at + shift, end + shift)


def _batches(rows: Rows | None, shift: int, near: Near) -> Iterator[TrackEvent]:
    """What each loader worker prepared; -1 is the training process itself."""
    if rows is None:
        return
    ends: dict[int, int] = {}
    for row in rows[rows["begin_ns"].argsort(kind="stable")]:
        begin, end, pid = int(row["begin_ns"]), int(row["end_ns"]), int(row["pid"])
        begin = max(begin, ends.get(pid, begin))  # slices of one track must not overlap
        if near(begin) and end > begin:
            ends[pid] = end
            yield Slice(f"batches prepared by process {pid}", "batch", begin + shift, end + shift)


def _host(samples: Sequence[Json], shift: int) -> Iterator[TrackEvent]:
    """Counters hold until the next one: a rate stands where its interval begins."""
    for before, after in pairwise(samples):
        at = round(number(before.get("t_ns"))) + shift
        for name, (key, roles) in RATES.items():
            rate = growth([before, after], key, roles)
            if rate is not None:
                yield Counter(name, at, rate)
        seconds = (number(after.get("t_ns")) - number(before.get("t_ns"))) / 1e9
        nets = [sample.get("net") for sample in (before, after)]
        if seconds > 0 and all(isinstance(net, dict) for net in nets):
            for name, key in NET.items():
                grown = number(nets[1].get(key)) - number(nets[0].get(key))  # type: ignore[union-attr]
                yield Counter(name, at, max(0.0, grown) / seconds)
    for sample in samples:
        procs = processes(sample)
        used = sum(number(proc.get("rss_bytes")) for proc in procs)
        if procs:
            yield Counter("memory of the processes, bytes", round(number(sample.get("t_ns"))) + shift, used)


def _gpu(index: int, rows: Sequence[Json], shift: int) -> Iterator[TrackEvent]:
    for row in rows:
        for name, key in GPU.items():
            if row.get(key) is not None:
                at = round(number(row.get("t_ns"))) + shift
                yield Counter(f"GPU {index} {name}", at, number(row[key]))
