"""The ranks of several traces as rows of the table that a job's ranks have: where the device's time goes."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.diagnosis.trace_ranks import RankTime, rank_times
from perfdoctor.diagnosis.trace_report import TraceReport
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.ranks import held_against
from perfdoctor.render import text
from perfdoctor.render.page import Block, Section
from perfdoctor.render.pages.rank_table import STRAGGLER, TRANSFER, WAIT, Kind, Row, heading, shown
from perfdoctor.render.pages.ranks import straggler_blocks
from perfdoctor.trace.results import IdleCause

COMPUTE = Kind("compute", "c", "green")
COPIES = Kind("copies", "p", "magenta")
COMMUNICATION = Kind("communication", "t", "blue", told=True, own=False)  # where it cannot be split
LETTERS = {
    IdleCause.DATA_WAIT: ("d", "yellow"),
    IdleCause.COPY: ("y", "magenta"),
    IdleCause.HOST_LATE: ("h", "red"),
    IdleCause.SYNC: ("s", "red"),
    IdleCause.LAUNCH_GAP: ("g", "red"),
    IdleCause.UNKNOWN: (".", "red"),
}
IDLE = {cause: Kind(cause.label, letter, colour) for cause, (letter, colour) in LETTERS.items()}
IDLE[IdleCause.OTHER_RANK] = WAIT
ON_HOST = {
    Bottleneck.DATA: Kind("in DataLoader", "d", "yellow"),
    Bottleneck.COMPUTE: Kind("in operators", "o", "green"),
    Bottleneck.HOST: Kind("other Python", ".", "red"),
}


def sections(report: TraceReport) -> Iterator[Section]:
    """The part of the page about all ranks: the straggler, and each rank's step."""
    rows = [_row(time) for time in rank_times(report)]
    on_device = any(trace.times is not None for trace in report.ranks)
    left_out = "communication" if on_device else ""
    yield [heading(text.count(len(rows), "rank"), len(rows), left_out), *_straggler(report)]
    yield from shown(rows, "step" if all(trace.steps for trace in report.ranks) else "time")


def _straggler(report: TraceReport) -> list[Block]:
    """Which rank the others wait for, and why."""
    straggler = report.straggler
    if straggler is None:
        return []
    told = f"the last to start {straggler.times_last:,} of {text.count(straggler.matched, 'collective')}"
    because = [f"{told}; {text.percent(straggler.caused)} of all wait time"]
    if straggler.excess_s > 0:
        longer, others = text.seconds(straggler.excess_s), held_against(straggler.ranks - 1)
        each = " a step" if straggler.per_step else ""
        because.append(f"it spends {longer}{each} longer on {straggler.cause.value} than {others}")
    return straggler_blocks(straggler.name, straggler.cause if straggler.excess_s > 0 else None, because)


def _row(time: RankTime) -> Row:
    if time.device is None and time.host is None:
        return Row(time.name, 0.0, {}, remark="no work of a device")
    seconds = {kind: share * time.whole_s for kind, share in _shares(time)}
    return Row(time.name, time.whole_s, seconds, last=time.last, mark=STRAGGLER if time.is_late else "")


def _shares(time: RankTime) -> Iterator[tuple[Kind, float]]:
    """What the time goes into, in the order of the strip."""
    device = time.device
    if device is None:
        yield from ((kind, (time.host or {})[cause]) for cause, kind in ON_HOST.items())
        return
    yield COMPUTE, device.compute
    yield COPIES, device.exposed_copy
    for cause, kind in IDLE.items():
        if cause in device.idle or (kind is WAIT and time.is_matched):
            yield kind, device.idle.get(cause, 0.0)
    yield (TRANSFER if time.is_matched else COMMUNICATION), device.exposed_comm
