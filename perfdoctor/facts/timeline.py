"""Puts the records of a run on one time axis, in few enough bins to be drawn: a Timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from perfdoctor.facts.decode import Json, number, positive, process_sum, sanitized
from perfdoctor.facts.gather import first_trained
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.steps.rollout_share import as_forward
from perfdoctor.facts.waterfall import waterfall
from perfdoctor.model.timeline import SampleChart, SampledCurve, StepBins, Timeline, Unit
from perfdoctor.runs.types import RunRecords

BINS = 600  # of a chart: a screen has few more columns for it
ROLES = {"main": "training process", "worker": "loader workers", "other": "other processes of the run"}

Values = Sequence[float | None]  # of each interval between two samples
Curves = Mapping[str, Values]


def timeline(records: RunRecords, rollouts: float = 0.0) -> Timeline:
    """The run over time: the steps of the lowest rank that trained, and the samples of its host.

    `rollouts`: the share of passes in eval mode that count as forward.
    """
    records = sanitized(records)
    rank, steps = first_trained(records)
    steps = replace(steps, phases=as_forward(steps.phases, rollouts)) if steps is not None else None
    host = _timed(records.host)
    begin_ns = positive(records.run.get("begin_ns")) or min(_begins(host, steps), default=0.0)
    bins = step_bins(steps, rank or 0, begin_ns) if steps is not None else None
    charts, absent = [], {}
    for sampled in (*_of_host(host), *_of_devices(records)):
        seen = {name: row for name, row in sampled.curves.items() if any(value is not None for value in row)}
        if len(sampled.at_ns) < 2 or not seen:
            absent[sampled.name] = "no two samples of it were taken"
        else:
            charts.append(_chart(sampled._replace(curves=seen), begin_ns))
    if not records.gpus:
        absent["Device"] = "no accelerator was sampled"
    ends = [positive(records.run.get("end_ns")), *(_t_ns(entry) for entry in host[-1:])]
    ends += [float(steps.end_ns[-1])] if steps is not None else []
    end_ns = max((end for end in ends if end is not None), default=begin_ns)
    fall = waterfall(records.ranks[rank], steps) if rank is not None and steps is not None else None
    return Timeline(max(0.0, (end_ns - begin_ns) / 1e9), bins, tuple(charts), absent, waterfall=fall)


def step_bins(steps: Steps, rank: int, begin_ns: float, most: int = BINS) -> StepBins:
    """The steps in at most `most` bins; no step is divided, and the longest row of each bin is kept."""
    span = np.linspace(steps.begin_ns[0], steps.end_ns[-1], most + 1)[1:-1]
    starts = np.unique(np.concatenate([[0], np.searchsorted(steps.end_ns, span, side="right")]))
    starts = starts[starts < len(steps.end_ns)]
    weights = np.add.reduceat(steps.weight, starts)
    edges = np.append(steps.begin_ns[starts], steps.end_ns[-1])
    return StepBins(
        tuple(((edges - begin_ns) / 1e9).tolist()),
        {
            phase: tuple((np.add.reduceat(values, starts) / weights).tolist())
            for phase, values in steps.phases.items()
        },
        tuple(np.maximum.reduceat(steps.seconds / steps.weight, starts).tolist()),
        round(float(steps.weight.sum())),
        rank,
        tuple(_windows(steps, begin_ns)),
        round(float(steps.weight.max())),
    )


def _windows(steps: Steps, begin_ns: float) -> Iterator[tuple[float, float]]:
    """The times of disturbed steps that follow each other."""
    sides = np.diff(np.concatenate([[False], steps.disturbed, [False]]).astype(np.int8))
    for first, after in zip(np.flatnonzero(sides == 1), np.flatnonzero(sides == -1), strict=True):
        yield (
            (float(steps.begin_ns[first]) - begin_ns) / 1e9,
            (float(steps.end_ns[after - 1]) - begin_ns) / 1e9,
        )


# ---------------------------------------------------------------- samples


class _Samples(NamedTuple):
    """Curves as sampled: a value for each interval between two moments."""

    name: str
    unit: Unit
    at_ns: Sequence[float]
    curves: Curves
    limit: float | None = None
    note: str = ""


def _of_host(host: Sequence[Json]) -> list[_Samples]:
    cores = {name: _process_rates(host, "cpu_s", role) for role, name in ROLES.items()}
    machine = [_known(entry.get("machine_busy_cores")) for entry in host[1:]]
    usable = positive(host[-1].get("usable_cores")) if host else None
    held = {
        "resident, all processes of the run": [process_sum(entry, "rss_bytes") for entry in host[1:]],
        "of that, without files behind it": [process_sum(entry, "anonymous_bytes") for entry in host[1:]],
    }
    disk = {
        name: _process_rates(host, key, *ROLES)
        for name, key in (("read", "read_bytes"), ("written", "written_bytes"))
    }
    net = {
        name: _net_rates(host, key)
        for name, key in (
            ("received", "received_bytes"),
            ("sent", "sent_bytes"),
            ("over loopback", "loopback_bytes"),
        )
    }
    shared = "Pages that processes share count once for each of them."
    whole = "All traffic of this host, of other programs as well."
    at_ns = [_t_ns(entry) for entry in host]
    own = "Traffic of the processes of the run with the disk itself."
    return [
        _Samples("CPU", "cores", at_ns, cores | {"all programs": machine}, usable),
        _Samples("Memory", "bytes", at_ns, held, note=shared),
        _Samples("Disk", "bytes_per_s", at_ns, disk, note=own),
        _Samples("Network", "bytes_per_s", at_ns, net, note=whole),
    ]


def _of_devices(records: RunRecords) -> list[_Samples]:
    if not records.gpus:
        return []
    # The device that was sampled most tells the moments; the others are read off at them.
    clock = [_t_ns(row) for row in max(map(_timed, records.gpus.values()), key=len)]
    curves: dict[str, Values] = {}
    for index, rows in sorted(records.gpus.items()):
        ordered = _timed(rows)
        times = [_t_ns(row) for row in ordered]
        for name, read in (("busy", _utilisation), ("memory", _memory_share)):
            known = [read(row) for row in ordered]
            places = np.searchsorted(times, clock[1:], side="right") - 1
            curves[f"device {index} {name}"] = [known[place] if place >= 0 else None for place in places]
    note = "Busy: a kernel ran, however few of its units worked."
    return [_Samples("Device", "share", clock, curves, 1.0, note)]


def _utilisation(row: Json) -> float | None:
    return _known(row.get("utilisation"))


def _memory_share(row: Json) -> float | None:
    used, total = _known(row.get("memory_used_bytes")), positive(row.get("memory_total_bytes"))
    return used / total if used is not None and total else None


def _process_rates(host: Sequence[Json], key: str, *roles: str) -> Values:
    """How fast a running total of the processes of these roles grows, a second.

    One that begins between two samples adds all that it has; one that only changes its role does not.
    """
    rates: list[float | None] = []
    for last, entry in pairwise(host):
        before = {proc.get("pid"): number(proc.get(key)) for proc in last.get("procs") or ()}
        grown = [
            max(0.0, number(proc[key]) - before.get(proc.get("pid"), 0.0))
            for proc in entry.get("procs") or ()
            if proc.get("role") in roles and proc.get(key) is not None
        ]
        rates.append(_rate(sum(grown), last, entry) if grown else None)
    return rates


def _net_rates(host: Sequence[Json], key: str) -> Values:
    counts = [_known((entry.get("net") or {}).get(key)) for entry in host]
    return [
        None if before is None or now is None else _rate(max(0.0, now - before), last, entry)
        for (before, now), (last, entry) in zip(pairwise(counts), pairwise(host), strict=True)
    ]


def _rate(amount: float, last: Json, entry: Json) -> float | None:
    seconds = (_t_ns(entry) - _t_ns(last)) / 1e9
    return amount / seconds if seconds > 0 else None


def _known(value: object) -> float | None:
    return number(value) if isinstance(value, (int, float)) else None


def _timed(entries: Sequence[Json]) -> list[Json]:
    """Samples in order, without those whose time was lost."""
    return sorted((entry for entry in entries if _t_ns(entry) > 0), key=_t_ns)


def _t_ns(entry: Json) -> float:
    return number(entry.get("t_ns"))


def _begins(host: Sequence[Json], steps: Steps | None) -> list[float]:
    return [
        *([_t_ns(host[0])] if host else []),
        *([float(steps.begin_ns[0])] if steps is not None else []),
    ]


def _chart(sampled: _Samples, begin_ns: float) -> SampleChart:
    """The intervals between samples in at most BINS bins."""
    count = len(sampled.at_ns) - 1
    bounds = np.unique(np.linspace(0, count, min(count, BINS) + 1).astype(int)).tolist()
    drawn = []
    for name, values in sampled.curves.items():
        groups = [
            [value for value in values[first:last] if value is not None] for first, last in pairwise(bounds)
        ]
        means = tuple(sum(group) / len(group) if group else None for group in groups)
        drawn.append(SampledCurve(name, means, tuple(max(group, default=None) for group in groups)))
    edges_s = tuple((sampled.at_ns[bound] - begin_ns) / 1e9 for bound in bounds)
    return SampleChart(sampled.name, sampled.unit, edges_s, tuple(drawn), sampled.limit, sampled.note)
