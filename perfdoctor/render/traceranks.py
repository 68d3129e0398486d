"""The ranks of several traces as rows of the table that a job's ranks have: where the device's time goes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from perfdoctor.analysis.device import DeviceFacts, device_facts, idle_label, without_waiting
from perfdoctor.analysis.ranks import RanksFacts, ranks_facts
from perfdoctor.analysis.traces import TraceReport, blame
from perfdoctor.job import held_against
from perfdoctor.model import Bottleneck
from perfdoctor.render import words
from perfdoctor.render.ranks import awaited
from perfdoctor.render.ranktable import LATE, MOVING, WAITING, Kind, Row, heading, shown
from perfdoctor.trace.ranks import RankWait
from perfdoctor.trace.results import IdleCause, RankTrace

COMPUTE = Kind("compute", "c", "green")
COPIES = Kind("copies", "p", "magenta")
COMMUNICATION = Kind("communication", "m", "blue", told=True, own=False)  # where it cannot be split
LETTERS = {
    IdleCause.DATA_WAIT: ("d", "yellow"),
    IdleCause.COPY: ("y", "magenta"),
    IdleCause.HOST_LATE: ("h", "red"),
    IdleCause.SYNC: ("s", "red"),
    IdleCause.LAUNCH_GAP: ("g", "red"),
    IdleCause.UNKNOWN: (".", "red"),
}
IDLE = {cause: Kind(idle_label(cause), letter, colour) for cause, (letter, colour) in LETTERS.items()}
IDLE[IdleCause.OTHER_RANK] = WAITING
ON_HOST = {
    Bottleneck.DATA: Kind("in DataLoader", "d", "yellow"),
    Bottleneck.COMPUTE: Kind("in operators", "o", "green"),
    Bottleneck.HOST: Kind("other Python", ".", "red"),
}
MOST = 0.5  # of all waiting: a rank that causes more of it than all others together is late


def block(report: TraceReport) -> RenderableType:
    """The part of the page about all ranks: whom the others wait for, and each rank's step."""
    return Group(*_lines(report))


def _lines(report: TraceReport) -> Iterator[RenderableType]:
    together = report.together
    waits = together.ranks if together is not None else (None,) * len(report.ranks)
    matched = together.matched if together is not None else 0
    late = ranks_facts(report.ranks, together)
    late = late if late is not None and late.caused > MOST else None
    rows = [
        _row(number, trace, wait, matched, late)
        for number, (trace, wait) in enumerate(zip(report.ranks, waits, strict=True), 1)
    ]
    on_device = any(trace.times is not None for trace in report.ranks)
    yield heading(words.count(len(rows), "rank"), len(rows), "communication" if on_device else "")
    if late is not None:
        yield awaited(f"rank {late.late}", late.cause if late.excess_s > 0 else None, list(_lateness(late)))
    yield Text()
    yield shown(rows, "step" if all(trace.steps for trace in report.ranks) else "time")


def _lateness(late: RanksFacts) -> Iterator[str]:
    yield (
        f"last to {late.last:,} of {words.count(late.matched, 'collective')}; "
        f"{words.percent(late.caused)} of all waiting"
    )
    if late.excess_s > 0:
        longer = words.seconds(late.excess_s)
        yield f"it spends {longer} a step longer on {late.cause.value} than {held_against(late.ranks - 1)}"


def _row(number: int, trace: RankTrace, wait: RankWait | None, matched: int, late: RanksFacts | None) -> Row:
    device = device_facts(trace)
    name = str(trace.rank) if trace.rank is not None else f"file {number}"
    if device is None:
        return _of_host(name, trace)
    whole_s = device.window_s / (device.steps or 1)
    is_late = late is not None and wait is not None and wait.rank == late.late
    return Row(
        name=name,
        step_s=whole_s,
        seconds={kind: share * whole_s for kind, share in _shares(device, wait)},
        last=wait.last / matched if wait is not None and matched else None,
        mark=LATE if is_late else "",
    )


def _shares(device: DeviceFacts, wait: RankWait | None) -> Iterator[tuple[Kind, float]]:
    """What the device's time goes into, in the order of the strip."""
    if wait is not None and wait.comm_us > 0:
        device = without_waiting(device, wait.waiting_us / wait.comm_us * device.exposed_comm)
    yield COMPUTE, device.compute
    yield COPIES, device.exposed_copy
    for cause, kind in IDLE.items():
        if cause in device.idle or (kind is WAITING and wait is not None):
            yield kind, device.idle.get(cause, 0.0)
    yield (COMMUNICATION if wait is None else MOVING), device.exposed_comm


def _of_host(name: str, trace: RankTrace) -> Row:
    """The same of a trace without work of a device."""
    blamed = blame(trace, None)
    if blamed is None:
        return Row(name, 0.0, {}, remark="no work of a device")
    steps_us = sum(step.times.span_us for step in trace.steps)
    whole_s = steps_us / len(trace.steps) / 1e6 if steps_us else (trace.end_ns - trace.begin_ns) / 1e9
    return Row(name, whole_s, {kind: blamed.classes[cause] * whole_s for cause, kind in ON_HOST.items()})
