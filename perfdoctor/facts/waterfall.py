"""Finds steps of usual length and what was done in them, beside each other: Waterfall."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perfdoctor.facts.steps.boundaries import COLUMNS, Steps
from perfdoctor.model.measured import Phase
from perfdoctor.model.waterfall import Lane, LaneStretch, Waterfall
from perfdoctor.runs.records import Rows
from perfdoctor.runs.types import RankRecords
from perfdoctor.trace.results import RankTrace
from perfdoctor.wire.batch_rows import TRAINING_PROCESS
from perfdoctor.wire.collective_rows import OP_NAMES, OTHER_OP, UNTIMED

SHOWN = 3  # steps: batches are prepared one or two ahead, so one alone shows no overlap
WORKERS = 8  # lanes; more are counted
EXCHANGES = 200  # of a lane, the longest
WORK = {  # kinds of work in a window of the profiler, and the lane of each
    "loading": "host, loading",
    "operators": "host, operators",
    "blocked": "host, blocked",
    "compute": "device, kernels",
    "communication": "device, exchange",
    "copying": "device, copies",
}
THINNEST = 0.001  # of what is shown: shorter stretches would not be seen


def waterfall(rank: RankRecords, steps: Steps) -> Waterfall | None:
    """Steps that stand for the run, or None where each entry of the record stands for many."""
    first, count = _usual(steps)
    if not count:
        return None
    begin_ns, end_ns = int(steps.begin_ns[first]), int(steps.end_ns[first + count - 1])
    ends = steps.end_ns[first : first + count]
    stretches = tuple(_phases(rank.steps, begin_ns, end_ns))
    workers = _workers(rank.loader, begin_ns, end_ns)
    return Waterfall(
        round(float(steps.weight[:first].sum())),
        tuple(((ends - begin_ns) / 1e9).tolist()),
        (
            Lane("training process", stretches),
            *_exchanges(rank.collectives, begin_ns, end_ns),
            *workers[:WORKERS],
        ),
        rank.rank,
        len(workers),
    )


def device_waterfall(window: RankTrace) -> Waterfall | None:
    """A usual step of a window of the profiler, or None where it saw no device or no step."""
    step = window.lanes
    if step is None or not step.lanes:
        return None
    lanes = (
        Lane(
            WORK[lane.kind],
            tuple(LaneStretch(lane.kind, begin / 1e6, end / 1e6) for begin, end in lane.stretches_us),
            lane.busy_us / 1e6,
        )
        for lane in step.lanes
    )
    return Waterfall(0, (step.span_us / 1e6,), tuple(lanes), window.rank or 0, window=step.name)


def _usual(steps: Steps) -> tuple[int, int]:
    """The first of the steps to show, and how many: together nearest to as many median ones, undisturbed."""
    single = (steps.weight == 1) & ~steps.disturbed
    single[:1] = False  # the first step warms up
    if not single.any():
        return 0, 0
    usual_s = float(np.median(steps.seconds[single]))
    for count in range(min(SHOWN, len(single)), 0, -1):
        whole = np.lib.stride_tricks.sliding_window_view(single, count).all(axis=1)
        if whole.any():
            far = np.abs(np.lib.stride_tricks.sliding_window_view(steps.seconds, count) - usual_s).max(axis=1)
            return int(np.argmin(np.where(whole, far, np.inf))), count
    return 0, 0


def _overlapping(rows: Rows, begin_ns: int, end_ns: int) -> Rows:
    """Rows that reach into the time that is shown, by their begin."""
    found = rows[(rows["end_ns"] > begin_ns) & (rows["begin_ns"] < end_ns) & (rows["begin_ns"] > 0)]
    return found[found["begin_ns"].argsort(kind="stable")]


def _stretch(
    kind: str, begin: int, end: int, shown_ns: tuple[int, int], name: str = ""
) -> tuple[LaneStretch, ...]:
    """A stretch as far as it is shown; none where nobody would see it."""
    begin_ns, end_ns = shown_ns
    begin, end = max(begin, begin_ns), min(end, end_ns)
    if end - begin < THINNEST * (end_ns - begin_ns):
        return ()
    return (LaneStretch(kind, (begin - begin_ns) / 1e9, (end - begin_ns) / 1e9, name),)


def _phases(rows: Rows | None, begin_ns: int, end_ns: int) -> Iterator[LaneStretch]:
    """The phases of each row: how long they take is measured, in a row they stand in their usual order."""
    for row in _overlapping(rows, begin_ns, end_ns) if rows is not None else ():
        at, end = int(row["begin_ns"]), int(row["end_ns"])
        for phase, column in COLUMNS.items():
            until = min(end, at + max(0, int(row[column])))
            yield from _stretch(phase.value, at, until, (begin_ns, end_ns))
            at = until
        yield from _stretch(Phase.OTHER.value, at, end, (begin_ns, end_ns))


def _exchanges(rows: Rows | None, begin_ns: int, end_ns: int) -> tuple[Lane, ...]:
    """What the rank exchanged, from the call to the last byte."""
    if rows is None:
        return ()
    timed = _overlapping(rows[(rows["flags"] & UNTIMED) == 0], begin_ns, end_ns)
    longest = np.sort((timed["end_ns"] - timed["begin_ns"]).argsort()[-EXCHANGES:])
    drawn = tuple(
        stretch
        for row in timed[longest]
        for stretch in _stretch(
            "exchange",
            int(row["begin_ns"]),
            int(row["end_ns"]),
            (begin_ns, end_ns),
            OP_NAMES.get(int(row["op"]), OP_NAMES[OTHER_OP]),
        )
    )
    return (Lane("exchange", drawn),) if drawn else ()


def _workers(rows: Rows | None, begin_ns: int, end_ns: int) -> list[Lane]:
    """What each loader worker prepared, the items and then collating them; between batches it waits."""
    if rows is None:
        return []
    made = _overlapping(rows[(rows["batches"] == 1) & (rows["worker"] != TRAINING_PROCESS)], begin_ns, end_ns)
    lanes = []
    for worker in np.unique(made["worker"]).tolist():
        stretches: list[LaneStretch] = []
        for row in made[made["worker"] == worker]:
            begin, end = int(row["begin_ns"]), int(row["end_ns"])
            collating = end - min(end - begin, max(0, int(row["collate_ns"])))
            stretches += _stretch("read", begin, collating, (begin_ns, end_ns))
            stretches += _stretch("collate", collating, end, (begin_ns, end_ns))
        lanes.append(Lane(f"worker {worker}", tuple(stretches)))
    return lanes
