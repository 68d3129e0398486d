"""Finds the steps in the rows of the step record: one period of the repeating pattern of updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Marker, Phase
from perfdoctor.runs.records import Rows
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import BatchLayoutEvent
from perfdoctor.wire.step_rows import DISTURBED, FRESH, PHASE_COLUMNS, ROLLED_UP, SKIPPED

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LONGEST_STEP = 64  # updates; longer patterns are not told apart from phases of training
IN_A_ROW = 0.65  # of each optimizer's updates follow one of its own: they take turns by phases, not by steps
REGULAR = 0.6  # of the steps are as long as the usual one: WGANs start their count anew with each epoch
LONG_WITHOUT = 2.0  # times as long without samples as ever between two steps that got some: none will come
UNCOUNTED = 0.1  # of the steps: fewer without samples barely change their rate
PATTERN_UPDATES = 20_000  # enough to see a pattern in

COLUMNS: Mapping[Phase, str] = dict(zip(Phase, PHASE_COLUMNS, strict=False))  # the rest is OTHER
COUNTS = ("marks", "backwards", "batches", "calls", "switches", "samples", "process_cpu_ns")
NEEDED = {"end_ns", "begin_ns", "marker", "flags", "optimizer", "loss", *COUNTS, *COLUMNS.values()}


@dataclass(frozen=True)
class Steps:
    """Steps in order, as columns. An entry made of rolled-up rows stands for several steps."""

    marker: Marker
    begin_ns: Ints
    end_ns: Ints
    weight: Floats  # how many steps an entry stands for
    disturbed: Bools  # by a profiler window
    phases: Mapping[Phase, Floats]  # seconds, all of them: they add up to `seconds`
    counts: Mapping[str, Floats]  # sums of COUNTS
    loss: Floats  # the entry's last known loss, or NaN
    skipped_updates: int
    rows: int
    per_step: float  # markers that make one step
    loaded_s: float = 0.0  # that data was waited for which all steps share: before the first one begins

    @property
    def fed_once(self) -> bool:
        """Whether loaders gave batches to the first of several steps, and to no later one."""
        batches = self.counts["batches"]
        return bool(len(batches) > 1 and self.weight[0] == 1 and batches[0] > 0 and not batches[1:].any())

    @property
    def samples(self) -> Floats:
        """The samples that each entry got, all 0 where steps went on for long after the last ones.

        What they trained on was kept from before (`itertools.cycle`), or came from elsewhere.
        """
        counted = self.counts["samples"]
        passed = np.cumsum(self.weight)
        got = passed[counted > 0]
        without = passed[-1] - got[-1] if len(got) else 0.0
        usual = float(np.max(np.diff(got), initial=1.0))
        kept = without > max(LONG_WITHOUT * usual, UNCOUNTED * passed[-1])
        return np.zeros_like(counted) if kept else counted

    @property
    def seconds(self) -> Floats:
        """How long each entry took."""
        return (self.end_ns - self.begin_ns) / 1e9


def of_rank(recorded: RankRecords) -> Steps | None:
    """The steps of one rank, without a count of samples where nothing tells how many a batch holds."""
    steps = find(recorded.steps)
    if steps is None or not any(event.of_one for event in recorded.of(BatchLayoutEvent)):
        return steps
    return replace(steps, counts={**steps.counts, "samples": np.zeros_like(steps.counts["samples"])})


def find(rows: Rows | None) -> Steps | None:
    """The steps of one rank, or None where nothing that looks like a step was recorded."""
    if rows is None or not set(rows.dtype.names or ()) >= NEEDED:
        return None
    sound = (rows["end_ns"] >= rows["begin_ns"]) & (rows["begin_ns"] > 0)
    rows = rows if sound.all() else rows[sound]
    markers = rows["marker"]
    body = markers[(markers >= Marker.CALL) & (markers <= Marker.UPDATE)]
    if not len(body):
        return None
    marker = Marker(int(body.max()))
    closes, per_step = _closing(rows, marker)
    if not len(closes):
        return None
    first = _first_row(rows, int(np.flatnonzero(_bearing(rows, marker))[0]))
    return _without_loading(_gather(rows, marker, closes, first, per_step))


def _without_loading(steps: Steps) -> Steps:
    """The steps, of which the first begins when data is there that is loaded once for all of them."""
    if not steps.fed_once:
        return steps
    waited = steps.phases[Phase.DATA_WAIT].copy()
    begin_ns, loaded_s = steps.begin_ns.copy(), float(waited[0])
    begin_ns[0], waited[0] = begin_ns[0] + round(loaded_s * 1e9), 0.0
    phases = {**steps.phases, Phase.DATA_WAIT: waited}
    return replace(steps, begin_ns=begin_ns, phases=phases, loaded_s=loaded_s)


def settled(steps: Steps) -> Steps:
    """The steps of a rank among others, the first one not timed: there they wait for whoever started last."""
    disturbed = steps.disturbed.copy()
    disturbed[:1] = True
    return replace(steps, disturbed=disturbed)


def _bearing(rows: Rows, marker: Marker) -> Bools:
    """Rows that can close a step: before the first update, backwards can as well."""
    weakest = Marker.BACKWARD if marker is Marker.UPDATE else marker
    return np.asarray((rows["marker"] >= weakest) & (rows["marker"] <= Marker.UPDATE))


def _first_row(rows: Rows, bearing: int) -> int:
    """The row after the last loader start before the first bearing row: what came before is start-up."""
    opened = np.flatnonzero(rows["marker"][:bearing] == Marker.OPEN)
    return int(opened[-1]) + 1 if len(opened) else 0


def _closing(rows: Rows, marker: Marker) -> tuple[Ints, float]:
    """The rows that end a step, and how many markers make one."""
    at = np.flatnonzero(rows["marker"] == marker)
    if marker is Marker.UPDATE:
        first, at, of_backward = _of_backwards(rows, at)
        rolled = rows["marks"][at] > 1
        ends, per_step = step_ends(rows["optimizer"][first[~rolled]].astype(np.int64))
        closes = np.sort(np.concatenate([at[~rolled][ends], at[rolled]]))
        return np.concatenate([_before_updates(rows, at[0], closes), closes]), per_step * of_backward
    if marker is Marker.BACKWARD:
        ends = np.append(_fresh(rows, at[1:]), True)
        return at[ends], len(at) / max(1, int(ends.sum()))
    return at, 1.0


def _of_backwards(rows: Rows, at: Ints) -> tuple[Ints, Ints, float]:
    """The first and the last of the updates that follow one backward, and how many do: a part by each.

    By parameters where an optimizer is stepped a part at a time, by optimizers where each has some; a batch
    between begins anew. Where no update has a backward, backwards were not seen. Where fewer follow the last
    one than any other, the script ended amid them.
    """
    before = np.diff(np.cumsum(rows["backwards"].astype(np.int64))[at])
    if not before.any():
        return at, at, 1.0
    batches = np.diff(np.cumsum(rows["batches"].astype(np.int64))[at])
    same = rows["optimizer"][at[1:]] == rows["optimizer"][at[:-1]]
    apart = (before > 0) | (~same & (batches > 0))
    first, last = np.flatnonzero(np.append(True, apart)), np.flatnonzero(np.append(apart, True))
    updates = last - first + 1
    whole = len(updates) - int(len(updates) > 1 and updates[-1] < updates[:-1].min())
    return at[first[:whole]], at[last[:whole]], float(np.mean(updates[:whole]))


def _before_updates(rows: Rows, first_update: int, closes: Ints) -> Ints:
    """Backwards that end a step of their own before any update was seen: the optimizer was hidden, then not.

    As many as later steps have belong to the first update.
    """
    early = np.flatnonzero(rows["marker"][:first_update] == Marker.BACKWARD)
    if len(closes) < 2:
        return early[:0]
    later = np.add.reduceat(rows["backwards"][: closes[-1] + 1].astype(np.int64), closes[:-1] + 1)
    of_first_update = max(1, round(float(np.median(later))))
    candidates = early[: max(0, len(early) - of_first_update)]
    return candidates[_fresh(rows, early[1 : len(candidates) + 1])]


def _fresh(rows: Rows, at: Ints) -> Bools:
    return np.asarray(rows["flags"][at] & FRESH != 0)


def step_ends(ids: Ints) -> tuple[Ints, float]:
    """Where steps end in a sequence of updates by these optimizers, and how many updates make one.

    A step ends with the optimizer that is updated least often (the generator of a WGAN, the last of a GAN);
    where the pattern opens with it, before it comes again. Without a pattern every update is a step.
    """
    every = np.arange(len(ids))
    counts = np.bincount(ids) if len(ids) else every
    names = np.flatnonzero(counts * LONGEST_STEP >= max(1, len(ids)))
    names = names[counts[names] > 0]
    if len(names) < 2 or _take_turns(ids[:PATTERN_UPDATES], names):
        return every, 1.0
    rarest = names[counts[names] == counts[names].min()]
    closer = max(rarest, key=lambda name: int(np.argmax(ids == name)))
    closes = ids == closer
    starts = np.flatnonzero(closes & ~np.concatenate([[False], closes[:-1]]))
    opens = starts[0] == 0
    ends = starts[1:] - 1 if opens else np.flatnonzero(closes & ~np.concatenate([closes[1:], [False]]))
    lengths, times = np.unique(np.diff(ends), return_counts=True)
    if not len(times) or times.max() < REGULAR * times.sum():
        return every, 1.0
    usual = int(lengths[np.argmax(times)])
    if opens and len(ids) - 1 - ends[-1] >= usual:  # the last one is complete, though nothing follows it
        ends = np.append(ends, len(ids) - 1)
    return _with_phases(ids, ends), float(usual)


def _take_turns(ids: Ints, names: Ints) -> bool:
    again = ids[:-1][ids[:-1] == ids[1:]]
    repeated = np.bincount(again, minlength=names.max() + 1)[names]
    return bool(np.all(repeated >= IN_A_ROW * np.bincount(ids, minlength=names.max() + 1)[names]))


def _with_phases(ids: Ints, ends: Ints) -> Ints:
    """In stretches that are too long for a step (one network is trained ahead) every update ends one."""
    borders = np.concatenate([[-1], ends, [len(ids) - 1]])
    long = np.flatnonzero(np.diff(borders) > LONGEST_STEP)
    stretches = [np.arange(borders[index] + 1, borders[index + 1] + 1) for index in long]
    return np.unique(np.concatenate([ends, *stretches])).astype(np.int64)


def _gather(rows: Rows, marker: Marker, closes: Ints, first: int, per_step: float) -> Steps:
    """Sum the rows of each step."""
    starts = np.concatenate([[first], closes[:-1] + 1])
    used = rows[: closes[-1] + 1]
    end_ns = used["end_ns"][closes].astype(np.int64)
    begin_ns = np.concatenate([[used["begin_ns"][first]], end_ns[:-1]]).astype(np.int64)
    begin_ns = np.minimum(begin_ns, end_ns)

    def total(column: str) -> Floats:
        values = np.nan_to_num(used[column].astype(np.float64))
        return np.asarray(np.add.reduceat(np.maximum(values, 0.0), starts))

    counts = {name: total(name) for name in COUNTS}
    flags = np.bitwise_or.reduceat(used["flags"], starts)
    rolled = (flags & ROLLED_UP) != 0
    marks = np.add.reduceat(np.where(used["marker"] == marker, used["marks"], 0).astype(np.float64), starts)
    return Steps(
        marker,
        begin_ns,
        end_ns,
        np.where(rolled, np.maximum(marks / per_step, 1.0), 1.0),
        np.asarray((flags & DISTURBED) != 0),
        _phases({phase: total(column) / 1e9 for phase, column in COLUMNS.items()}, (end_ns - begin_ns) / 1e9),
        counts,
        _last_loss(used["loss"], starts, closes),
        int(np.count_nonzero(used["flags"][first:] & SKIPPED)),
        len(used) - first,
        per_step,
    )


def _phases(measured: dict[Phase, Floats], seconds: Floats) -> Mapping[Phase, Floats]:
    """Add what is left as `other`. Phases that exceed their step (a torn row) are scaled to fit it."""
    known = np.sum(list(measured.values()), axis=0)
    fit = np.divide(seconds, known, out=np.ones_like(known), where=known > seconds)
    fitted = {phase: values * fit for phase, values in measured.items()}
    return {**fitted, Phase.OTHER: np.maximum(0.0, seconds - known * fit)}


def _last_loss(loss: Floats, starts: Ints, closes: Ints) -> Floats:
    """Each step's last finite loss."""
    finite = np.isfinite(loss)
    latest = np.maximum.accumulate(np.where(finite, np.arange(len(loss)), -1))[closes]
    return np.where(latest >= starts, loss[np.maximum(latest, 0)], np.nan).astype(np.float64)
