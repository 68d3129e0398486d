"""Compares two sides of measured traces: what grew and what shrank, per step where both mark steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from perfdoctor.facts.device.device import exposed_copies_us, over_the_bus
from perfdoctor.facts.device.judged_steps import judged_steps, left_out
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.note import Note, Remark
from perfdoctor.trace.results import IdleCause, RankTrace, Times

# Names of the time that all others are parts of.
STEP, SPAN, FILE = WHOLE = ("step", "device's span", "trace")
Totals = dict[str, tuple[float, float]]  # name: (microseconds, count)


@dataclass(frozen=True)
class Difference:
    """One kernel class, kernel, operator or share of the time: before and after, in microseconds."""

    name: str
    before_us: float
    after_us: float
    before_count: float
    after_count: float

    @property
    def grown_us(self) -> float:
        """By how much it grew; below zero it shrank."""
        return self.after_us - self.before_us


@dataclass(frozen=True)
class TraceComparison:
    """What changed from one side to the other. Times are of one rank: the mean where a side has several.

    `per_step`: they are of one step, too; else of the whole trace. Lists are ordered by how much changed.
    """

    before: tuple[str, ...]  # files
    after: tuple[str, ...]
    per_step: bool
    before_steps: float  # steps per rank that times are of, 0 where none is marked
    after_steps: float
    times: tuple[Difference, ...]  # step or span, busy, compute, ...: in the order of a page
    classes: tuple[Difference, ...]
    kernels: tuple[Difference, ...]
    ops: tuple[Difference, ...]  # by the device's time where every file has one, else the host's
    notes: tuple[Remark, ...] = ()

    @property
    def whole(self) -> Difference | None:
        """The step, or the time that the traces cover; None where some are timed by a device, some not."""
        return next((time for time in self.times if time.name in WHOLE), None)


def compare(before: Sequence[RankTrace], after: Sequence[RankTrace]) -> TraceComparison:
    """What changed from the traces `before` to those `after`, each one or one per rank."""
    sides, traces = (before, after), (*before, *after)
    by_file = [[len(judged_steps(trace.steps)) for trace in side] for side in sides]
    judged = [sum(counts) for counts in by_file]
    per_step = all(map(all, by_file))  # what a file without steps lists is of all of it

    def changes(totals: Callable[[RankTrace], Totals]) -> tuple[Difference, ...]:
        units = judged if per_step else [len(side) for side in sides]
        before_totals, after_totals = (
            _mean(map(totals, side), unit) for side, unit in zip(sides, units, strict=True)
        )
        names = dict.fromkeys([*before_totals, *after_totals])
        return tuple(
            Difference(name, *_both(before_totals.get(name), after_totals.get(name))) for name in names
        )

    on_device = all(trace.times is not None for trace in traces)
    parts = _steps_times if per_step else _times
    return TraceComparison(
        before=tuple(trace.file for trace in before),
        after=tuple(trace.file for trace in after),
        per_step=per_step,
        before_steps=judged[0] / len(before),
        after_steps=judged[1] / len(after),
        times=_shared(changes(parts), map(parts, traces)) if _some_without(traces) else changes(parts),
        classes=_ordered(changes(_classes)) if on_device else (),
        kernels=_ordered(changes(_kernels)) if on_device else (),
        ops=_ordered(changes(_device_ops if on_device else _host_ops)),
        notes=tuple(dict.fromkeys(_notes(traces, per_step))),
    )


def _some_without(traces: Sequence[RankTrace]) -> list[str]:
    """The files without work of a device, where others hold some: no time of devices can be compared."""
    without = [trace.file for trace in traces if trace.times is None]
    return without if len(without) < len(traces) else []


def _shared(changes: Iterable[Difference], totals: Iterable[Totals]) -> tuple[Difference, ...]:
    """The changes of what every trace tells."""
    names = set.intersection(*map(set, totals))
    return tuple(change for change in changes if change.name in names)


def _notes(traces: Sequence[RankTrace], per_step: bool) -> Iterator[Remark]:
    """What the reports of the files say, too: damage, what they lack, steps that are no part of the times."""
    for trace in traces:
        if trace.skipped.because is not None:
            yield Note("of-file", {"file": trace.file, "note": trace.skipped.because})
    if without := _some_without(traces):
        yield Note("device-not-everywhere", {"files": without})
    for trace in traces:
        if per_step:
            yield from left_out(trace)
        for note in trace.notes:
            is_of_all = all(note in other.notes for other in traces)
            yield note if is_of_all else Note("of-file", {"file": trace.file, "note": note})


def _both(
    before: tuple[float, float] | None, after: tuple[float, float] | None
) -> tuple[float, float, float, float]:
    before_us, before_count = before or (0.0, 0.0)
    after_us, after_count = after or (0.0, 0.0)
    return before_us, after_us, before_count, after_count


def _ordered(changes: Iterable[Difference]) -> tuple[Difference, ...]:
    return tuple(sorted(changes, key=lambda change: (-abs(change.grown_us), change.name)))


def _mean(totals: Iterable[Totals], unit: float) -> dict[str, tuple[float, float]]:
    """All ranks added up, over `unit`."""
    added: dict[str, tuple[float, float]] = {}
    for rank in totals:
        for name, (us, count) in rank.items():
            all_us, all_count = added.get(name, (0.0, 0))
            added[name] = (all_us + us, all_count + count)
    return {name: (us / unit, count / unit) for name, (us, count) in added.items()}


def _classes(trace: RankTrace) -> Totals:
    return {use.kind.value: (use.us, use.count) for use in trace.classes}


def _kernels(trace: RankTrace) -> Totals:
    return {kernel.name: (kernel.us, kernel.count) for kernel in trace.kernels}


def _device_ops(trace: RankTrace) -> Totals:
    return {op.name: (op.device_us, op.count) for op in trace.ops if op.device_us > 0}


def _host_ops(trace: RankTrace) -> Totals:
    return {op.name: (op.host_us, op.count) for op in trace.ops}


def _times(trace: RankTrace) -> Totals:
    """The whole trace, where steps are not marked on both sides."""
    if trace.times is None:
        whole_us = (trace.end_ns - trace.begin_ns) / 1e3
        return {
            FILE: (whole_us, 1),
            "in DataLoader": (trace.dataloader_us, trace.dataloader_count),
            "in operators": (trace.operators_us or 0.0, 1),
        }
    return _parts(SPAN, [trace.times], trace.idle_us.items(), over_the_bus(trace)) | {
        "in DataLoader": (trace.dataloader_us, trace.dataloader_count)
    }


def _steps_times(trace: RankTrace) -> Totals:
    """The judged steps of a trace, added up."""
    steps = judged_steps(trace.steps)
    times = [step.times for step in steps]
    data_us = sum(step.dataloader_us for step in steps)
    loading = {"in DataLoader": (data_us, trace.dataloader_count * len(steps) / max(1, len(trace.steps)))}
    if trace.times is not None:
        idle = [entry for step in steps for entry in step.idle_us.items()]
        return _parts(STEP, times, idle, over_the_bus(trace)) | loading
    ops_us = sum(step.operators_us or 0.0 for step in steps)
    whole_us = sum(time.span_us for time in times)
    return {STEP: (whole_us, len(steps)), **loading, "in operators": (ops_us, len(steps))}


def _parts(
    whole: str, times: Sequence[Times], idle: Iterable[tuple[IdleCause, float]], over_bus: float
) -> Totals:
    """`over_bus`: share of the copies that leave the device or come to it; others compute, as in a report."""
    count = len(times)
    within_us = exposed_copies_us(times) * (1.0 - over_bus)
    parts = {
        whole: sum(time.span_us for time in times),
        "device busy": sum(time.busy_us for time in times),
        "compute": sum(time.compute_us for time in times) + within_us,
        "exposed communication": sum(time.exposed_comm_us for time in times),
        "copies": over_bus * sum(time.copy_us for time in times),
        "device idle": sum(time.idle_us for time in times),
    }
    for cause, us in idle:
        name = cause.label
        parts[name] = parts.get(name, 0.0) + us
    return {name: (us, count) for name, us in parts.items()}
