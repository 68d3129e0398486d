"""The records of one execution become its figures: warm-up is cut off, the rest averaged by whole periods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from perfdoctor.facts.data.loader import most_ahead
from perfdoctor.facts.decode import as_count
from perfdoctor.facts.steps.boundaries import Floats, Ints, Steps
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import PAUSES, Marker, Phase
from perfdoctor.model.trial import Execution, ExecutionEnd
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.trials.change_point import slow_beginning, stalls
from perfdoctor.trials.outline import outline_of, ranks_of
from perfdoctor.wire.events.loaders import EpochEvent

# Optimizers make their state in the first update, allocators and thread pools fill in the first few, and a
# gradient scaler skips its first updates while it looks for its scale.
LEAST_WARM_UP = 5
BURSTS = (Phase.DATA_WAIT, *PAUSES)  # come in lumps while training is steady
WAITING, MOVING = "waiting", "moving"  # the parts of exchanging, as phases of an execution


@dataclass(frozen=True)
class Turn:
    """A training's turn: when it had settled and when it was over, in nanoseconds of the steps' clock."""

    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class _MeasuredRank:
    """The steps of one rank and which of them are measured: from a first one up to a last, without it."""

    steps: Steps
    stretches: tuple[tuple[int, int], ...]

    @cached_property
    def chosen(self) -> Ints:
        """The indices of the measured steps."""
        return np.concatenate([np.arange(first, last) for first, last in self.stretches])

    @property
    def count(self) -> int:
        return len(self.chosen)

    @property
    def turns_s(self) -> list[float]:
        """Mean seconds of a step in each stretch."""
        return [
            int(self.steps.end_ns[last - 1] - self.steps.begin_ns[first]) / 1e9 / (last - first)
            for first, last in self.stretches
        ]

    @property
    def seconds(self) -> float:
        """Of all stretches."""
        lengths = (last - first for first, last in self.stretches)
        return sum(length * step_s for length, step_s in zip(lengths, self.turns_s, strict=True))

    @property
    def samples(self) -> float:
        return float(self.steps.samples[self.chosen].sum())

    @property
    def cpu_s(self) -> float:
        return float(self.steps.counts["process_cpu_ns"][self.chosen].sum()) / 1e9

    def phase(self, phase: Phase) -> Floats:
        """Seconds of each measured step."""
        return self.steps.phases[phase][self.chosen]


def execution(records: RunRecords, at_round: int, warm_up_steps: int, steps: int | None) -> Execution:
    """The figures of an execution: the mean over `steps` steps past its warm-up, or over all without `steps`.

    Where epochs, validation or checkpoints recur, the measured steps make up whole periods. The ending goes
    by the steps alone: MEASURED, TOO_SHORT (measured over those there are) or NO_STEPS.
    """
    outline = outline_of(records, at_round)
    ranks = ranks_of(records)
    if not ranks:
        return outline
    have = min(len(taken_steps.end_ns) for _, taken_steps in ranks) - warm_up_steps
    if have <= 0:
        return replace(outline, ending=ExecutionEnd.TOO_SHORT)
    wanted = have if steps is None else min(have, steps)
    last = warm_up_steps + _whole_periods(*ranks[0], wanted)
    measured = [_MeasuredRank(taken_steps, ((warm_up_steps, last),)) for _, taken_steps in ranks]
    ending = ExecutionEnd.TOO_SHORT if steps is not None and have < steps else ExecutionEnd.MEASURED
    return _timed(replace(outline, ending=ending), measured, warm_up_steps, records)


def in_turns(
    records: RunRecords,
    at_round: int,
    warm_up_steps: int,
    turns: Sequence[Turn],
    turn_steps: int,
    compiles: bool = False,
) -> Execution:
    """The figures of an execution that took turns with others: of the first `turn_steps` whole steps of each.

    `turns_s` has a value for each turn, NaN where it does not hold as many, or where one of the round
    `compiles` and a step of the turn took as long as that. The ending goes by the steps alone, as that of
    `execution`.
    """
    outline = outline_of(records, at_round)
    ranks = ranks_of(records)
    if not ranks:
        return outline
    first_rank = ranks[0][1]
    firsts = [int(np.searchsorted(first_rank.begin_ns, turn.begin_ns)) for turn in turns]
    fewest = min(len(steps.end_ns) for _, steps in ranks)
    whole = [
        first + turn_steps <= fewest
        and int(first_rank.end_ns[first + turn_steps - 1]) <= turn.end_ns
        and not (compiles and stalls(_steady_s(first_rank)[first : first + turn_steps]).size)
        for first, turn in zip(firsts, turns, strict=True)
    ]
    stretches = tuple(
        (first, first + turn_steps) for first, is_whole in zip(firsts, whole, strict=True) if is_whole
    )
    if not stretches:
        return replace(outline, ending=ExecutionEnd.TOO_SHORT)
    measured = [_MeasuredRank(steps, stretches) for _, steps in ranks]
    timed = _timed(replace(outline, ending=ExecutionEnd.MEASURED), measured, warm_up_steps, records)
    left_s = iter(timed.turns_s)
    return replace(timed, turns_s=tuple(next(left_s) if is_whole else math.nan for is_whole in whole))


def warm_up(
    records: RunRecords, settings: Sequence[Mapping[str, int]] = ({},), least: int = LEAST_WARM_UP
) -> int:
    """How many steps an execution needs to settle, at least so many, from one that went on for longer.

    These are the slow first steps (compiling, trying algorithms), and then the batches that workers prepared
    meanwhile, for those come faster than workers can make them. `settings`: `num_workers` and
    `prefetch_factor` of each variant that is to settle, where it has its own.
    """
    return max(
        (
            max(least, slow_beginning(_steady_s(steps)))
            + max(_drain(rank, steps, values) for values in settings)
            for rank, steps in ranks_of(records)
        ),
        default=least,
    )


def updates_per_step(records: RunRecords) -> float:
    """Updates of the first optimizer in a step, for the probe counts those; 1 where nothing is updated."""
    for rank, steps in ranks_of(records)[:1]:
        rows = rank.steps
        if rows is None or steps.marker is not Marker.UPDATE:
            continue
        first = rows["marks"][(rows["marker"] == Marker.UPDATE) & (rows["optimizer"] == 1)].sum()
        return max(1.0, float(first) / float(steps.weight.sum()))
    return 1.0


def period(records: RunRecords, held: float = 1.0) -> int | None:
    """Steps between epochs, validations or checkpoints, whichever come most seldom; None: irregularly.

    Where a variant's step holds `held` times the samples, what comes with epochs comes after as many samples
    as before, and what comes every so many steps after `held` times as many.
    """
    for rank, steps in ranks_of(records)[:1]:
        validating, saving = _interludes(steps)
        training = (marks for marks in _epochs(rank, steps) if not np.isin(marks, validating).all())
        epochs = set(filter(None, map(_period, training)))
        stretched = (
            each if any(each % epoch == 0 for epoch in epochs) else math.ceil(each * max(1.0, held))
            for each in filter(None, map(_period, (validating, saving)))
        )
        return max((*epochs, *stretched), default=None)
    return None


def epoch(records: RunRecords) -> float | None:
    """Steps of an epoch, also of one that is not over yet, by what its dataset holds; None: without loader.

    Infinite where none was over, and its dataset does not tell what it holds.
    """
    for rank, steps in ranks_of(records)[:1]:
        known = max(filter(None, map(_period, _epochs(rank, steps))), default=None)
        if known is not None:
            return known
        items = [epoch.items for epoch in rank.of(EpochEvent) if epoch.begin_ns <= int(steps.end_ns[0])]
        loads = steps.counts["batches"] > 0
        held = float(np.median(steps.counts["samples"][loads])) if loads.any() else 0.0
        if items and items[-1] and held:
            return math.ceil(items[-1] / held)
        uneven = [int(np.diff(marks).max()) for marks in _epochs(rank, steps) if len(marks) > 1]
        return max(uneven, default=math.inf if items else None)
    return None


def batch(records: RunRecords) -> float | None:
    """Samples in a usual batch of the first rank; None where it has no loader, or one that does not tell."""
    for _, steps in ranks_of(records)[:1]:
        loads = steps.counts["batches"] > 0
        held = steps.counts["samples"][loads] / steps.counts["batches"][loads]
        return float(np.median(held)) or None if len(held) else None
    return None


# ---------------------------------------------------------------- times


def _timed(
    outline: Execution, ranks: Sequence[_MeasuredRank], warm_up_steps: int, records: RunRecords
) -> Execution:
    """Add the times: those of the slowest rank, for the others wait for it."""
    command_ns = as_count(records.run.get("begin_ns"))
    slowest = max(ranks, key=lambda rank: rank.seconds)
    samples = sum(rank.samples for rank in ranks)
    begin_ns = int(slowest.steps.begin_ns[0])
    warm_ns = int(slowest.steps.end_ns[warm_up_steps - 1]) if warm_up_steps else begin_ns
    return replace(
        outline,
        step_s=slowest.seconds / slowest.count,
        samples_per_s=samples / slowest.seconds if samples else None,
        steps=slowest.count,
        start_s=None if command_ns is None else max(0.0, (begin_ns - command_ns) / 1e9),
        warm_up_s=(warm_ns - begin_ns) / 1e9,
        warm_up_steps=warm_up_steps,
        slow_steps=_slow_steps(slowest, warm_up_steps),
        turns_s=tuple(slowest.turns_s),
        phases=_phases(ranks),
        cpu_s=sum(rank.cpu_s for rank in ranks) / slowest.count or None,
    )


def _phases(ranks: Sequence[_MeasuredRank]) -> dict[str, float]:
    """Mean seconds of a step by phase, over all ranks: see `Execution.phases`.

    In a collective, the rank that is held up least came last: that long it takes with all ranks there.
    """
    means = {phase: float(np.mean([rank.phase(phase) for rank in ranks])) for phase in Phase}
    exchanging = np.array([rank.phase(Phase.GRAD_SYNC) for rank in ranks])
    moving_s = float(exchanging.min(axis=0).mean())
    waiting_s = means.pop(Phase.GRAD_SYNC) - moving_s
    return {phase.value: seconds for phase, seconds in means.items()} | {
        WAITING: waiting_s,
        MOVING: moving_s,
    }


def _whole_periods(rank: RankRecords, steps: Steps, wanted: int) -> int:
    """As many of the wanted steps as make whole periods of what recurs; all of them where nothing does.

    Any stretch as long as a period holds each of its places once, wherever it begins.
    """
    periods = map(_period, (*_epochs(rank, steps), *_interludes(steps)))
    longest = max((period for period in periods if period is not None and period <= wanted), default=1)
    return wanted // longest * longest


def _epochs(rank: RankRecords, steps: Steps) -> Iterator[Ints]:
    """The steps with which epochs of each loader begin."""
    epochs: dict[object, list[float]] = {}
    for epoch in rank.of(EpochEvent):
        epochs.setdefault(epoch.loader, []).append(epoch.begin_ns)
    for begins_ns in epochs.values():
        yield np.searchsorted(steps.end_ns, np.array(begins_ns), side="right").astype(np.int64)


def _interludes(steps: Steps) -> tuple[Ints, Ints]:
    """The steps that validate, and those that save."""
    validating, saving = (np.flatnonzero(steps.phases[phase] > 0).astype(np.int64) for phase in PAUSES)
    return validating, saving


def _period(marks: Ints) -> int | None:
    """The distance of marks that are equally far from each other, in steps."""
    distances = np.unique(np.diff(np.unique(marks)))
    return int(distances[0]) if len(distances) == 1 else None


# ---------------------------------------------------------------- warm-up


def _steady_s(steps: Steps) -> Floats:
    """Seconds of each step without what comes in lumps."""
    return np.asarray(steps.seconds - sum(steps.phases[phase] for phase in BURSTS))


def _slow_steps(rank: _MeasuredRank, warm_up_steps: int) -> int:
    """See `Execution.slow_steps`. What lies between warm-up and turns is left out: rests have cut it."""
    seen = np.concatenate([np.arange(min(warm_up_steps, rank.chosen[0])), rank.chosen])
    seconds = _steady_s(rank.steps)[seen]
    slow = max(slow_beginning(seconds), *(stalls(seconds)[-1:] + 1), 0)
    return int(seen[slow - 1]) + 1 if slow else 0


def _drain(rank: RankRecords, steps: Steps, arguments: Mapping[str, int]) -> int:
    """How many steps are fed by what workers prepare ahead; `arguments` replace what loaders say."""
    ahead = most_ahead(rank, arguments)
    return math.ceil(ahead / max(1.0, float(np.median(steps.counts["batches"]))))
