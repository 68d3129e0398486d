"""Finds steps that take much longer at regular intervals, and what they do then: PeriodicStalls."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from perfdoctor.facts.data.worker_starts import starting
from perfdoctor.facts.host.gc_pauses import GcPauseFacts
from perfdoctor.facts.host.inner_lines import Way, inner_line
from perfdoctor.facts.host.outside_training import OutsideTraining
from perfdoctor.facts.host.stacks import threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Bools, Floats, Ints, Steps
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.intervals import Intervals, Remainders
from perfdoctor.facts.user_source.parse import Sources, logs, saves
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import PAUSES, LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.loaders import EpochEvent

SETTLING = 0.1  # of the steps may be long because they warm up
# Usual steps that a stall takes beyond one, tried in turn: on a busy machine, many steps are a little longer.
LONGER = (0.5, 1, 2, 4, 8, 16, 32)
SPREAD = 6.0  # times the usual spread of steps, at least
MAD_SIGMA = 1.4826  # standard deviations of a normal distribution in its median absolute deviation
SEVERAL = 5  # stalls, below which an interval may be chance
SHORTEST = 3  # steps: what happens in every second step is the step's own pattern
ON_TIME = 0.8  # of the steps at the interval stall ...
BETWEEN = 0.1  # ... and of those between at most this share
EVEN = 0.1  # of the interval: how far one in seconds may be off
MOSTLY = 0.5
ONE_PHASE = 0.6  # of the stalls' excess lies in it
TRAINS = 0.25  # of the excess in backward: then the long steps train more, which is meant
# Waiting for batches or ranks, validation and checkpoints have findings of their own.
OWNED = (Phase.DATA_WAIT, Phase.GRAD_SYNC, *PAUSES)
OTHERS_KINDS = frozenset({"logging", "checkpoint", "data", "queue"})


@dataclass(frozen=True)
class PeriodicStalls:
    """Steps that take much longer at regular intervals."""

    every_steps: int | None  # None where the interval is one in seconds
    every_s: float
    count: int
    usual_s: float  # the step in between
    stall_s: float  # the usual step that stalls
    share: float  # of the time: what these steps take beyond the usual one
    phase: Phase  # that most of the excess lies in
    phase_share: float
    line: LineCost | None  # that runs in these steps
    collects: bool = False  # these steps call models more often, with as many backward passes: a rollout


@fact
def periodic_stalls(
    rank: RankRecords,
    steps: Steps,
    stacks: StackFacts | Missing,
    pauses: GcPauseFacts | Missing | None,
    epochs: list[EpochEvent],
    sources: Sources,
) -> PeriodicStalls | None:
    """The stalls, or None where there are none, or where another group of facts tells what they are."""
    own = _timed_alone(steps)
    phases = {phase: steps.phases[phase][own] for phase in steps.phases}
    seconds = steps.seconds[own] - np.sum([phases[phase] for phase in OWNED], axis=0)
    if len(seconds) < SEVERAL * SHORTEST:
        return None
    usual_s = float(np.median(seconds))
    spread_s = MAD_SIGMA * float(np.median(np.abs(seconds - usual_s)))
    excesses_s = np.where(steps.disturbed[own], 0.0, seconds - usual_s)
    levels = [excesses_s > max(longer * usual_s, SPREAD * spread_s) for longer in LONGER]
    begin_ns = steps.begin_ns[own]
    in_steps = (found for long in levels if (found := _in_steps(long)) is not None)
    in_seconds = (at for long in levels if (at := _in_seconds(begin_ns, long)) is not None)
    every, hits = next(in_steps, (None, None))
    if hits is None:
        hits = next(in_seconds, None)
    if hits is None:
        return None
    excess_s = float(np.sum(seconds[hits] - usual_s))
    paused_s = (
        0.0 if isinstance(pauses, Missing) or pauses is None else pauses.seconds_per_step * len(seconds)
    )
    lumps = phases[Phase.VALIDATION][hits] + phases[Phase.CHECKPOINT][hits] > 0
    restarts = starting(epochs, begin_ns[hits], steps.end_ns[own][hits])
    if paused_s >= MOSTLY * excess_s or lumps.mean() >= MOSTLY or restarts.mean() >= MOSTLY:
        return None
    by_phase = {
        phase: float(np.sum(values[hits] - np.median(values))) / excess_s
        for phase, values in phases.items()
        if phase not in OWNED
    }
    phase = max(by_phase, key=lambda each: by_phase[each])
    if by_phase[phase] < ONE_PHASE or by_phase[Phase.BACKWARD] >= TRAINS or phase is Phase.OPTIMIZER:
        return None
    share = min(1.0, excess_s / float(steps.seconds[own].sum()))
    backwards = float(np.median(steps.counts["backwards"][own]))
    line = _line(rank, phase, share, (every, backwards), stacks, sources)
    if line is not None and line.kind in OTHERS_KINDS:
        return None
    return PeriodicStalls(
        every_steps=every,
        every_s=float(np.median(np.diff(begin_ns[hits]))) / 1e9,
        count=len(hits),
        usual_s=usual_s,
        stall_s=float(np.median(seconds[hits])),
        share=share,
        phase=phase,
        phase_share=min(1.0, by_phase[phase]),
        line=line,
        collects=_collects(steps, own, hits),
    )


def _collects(steps: Steps, own: slice, hits: Ints) -> bool:
    """Whether the long steps call models several times as often as usual, and train no more.

    What they compute without learning from it, the steps that follow do: such as a rollout of actions.
    """
    calls, backwards = (steps.counts[name][own] for name in ("calls", "backwards"))
    often = float(np.median(calls[hits])) >= SEVERAL * max(1.0, float(np.median(calls)))
    return often and float(np.median(backwards[hits])) <= float(np.median(backwards))


def _timed_alone(steps: Steps) -> slice:
    """The settled steps that have a row of their own, as all have in runs of less than a hundred thousand."""
    rolled = np.flatnonzero(steps.weight > 1)
    end = int(rolled[0]) if len(rolled) else len(steps.weight)
    return slice(int(SETTLING * end), end)


def _in_steps(long: Bools) -> tuple[int, Ints] | None:
    """The interval at which nearly all steps are long, and nearly no others; and these long steps."""
    stalls = np.flatnonzero(long)
    if len(stalls) < SEVERAL:
        return None
    gaps, times = np.unique(np.diff(stalls), return_counts=True)
    every = int(gaps[np.argmax(times)])
    if every < SHORTEST:
        return None
    begin = int(np.argmax(np.bincount(stalls % every, minlength=every)))
    places = np.arange(begin, len(long), every)
    rest = np.delete(long, places)
    regular = len(places) >= SEVERAL and long[places].mean() >= ON_TIME and rest.mean() <= BETWEEN
    return (every, places[long[places]]) if regular else None


def _in_seconds(begin_ns: Ints, long: Bools) -> Ints | None:
    """The long steps, where they come at nearly even intervals of time."""
    stalls = np.flatnonzero(long)
    if len(stalls) < SEVERAL:
        return None
    gaps_s: Floats = np.diff(begin_ns[stalls]) / 1e9
    usual_step_s = float(np.median(np.diff(begin_ns))) / 1e9
    every_s = float(np.median(gaps_s))
    even = np.abs(gaps_s - every_s) <= EVEN * every_s + usual_step_s
    return stalls if even.mean() >= ON_TIME and every_s >= SHORTEST * usual_step_s else None


def _line(
    rank: RankRecords,
    phase: Phase,
    share: float,
    interval: tuple[int | None, float],
    stacks: StackFacts | Missing,
    sources: Sources,
) -> LineCost | None:
    """The line that runs by `step % n == 0`; without one, a line that takes as much time as the stalls.

    That only between the phases: a line of a pass runs in other steps as well, and takes its time there.
    `interval`: in steps, where it is one in steps; and how many backward passes a step has.
    """
    every, backwards = interval
    if isinstance(stacks, Missing):
        return None
    lines = stacks.phases.get(phase, ())
    at, inner = _now_and_then(rank, every, backwards, sources) if every is not None else (None, None)
    if at is None and phase is not Phase.OTHER:
        return None
    if at is None:
        return next((line for line in lines if MOSTLY * share <= line.share <= share / MOSTLY), None)
    seen = next((line for line in lines if (line.at.file, line.at.line) == (at.file, at.line)), None)
    kind = seen.kind if seen is not None else None
    listing = sources.file(at.file)
    node = listing.statement(at.line)
    if node is not None and logs(node, writers=listing.writers):
        kind = "logging"
    elif node is not None and saves(node):
        kind = "checkpoint"
    reads = seen is not None and seen.reads_tensor
    return LineCost(at, share, 0, None, kind, reads_tensor=reads, inner=inner)


def _now_and_then(
    rank: RankRecords, every: int, backwards: float, sources: Sources
) -> tuple[Location | None, Location | None]:
    """The line that runs by such a remainder that most of training's samples pass through, and one below."""
    main = [(frames, count) for label, frames, count in threads(rank) if label == "main"]
    intervals = Intervals(sources)
    outside = OutsideTraining(main, sources, intervals)
    ways: dict[Frame, list[Way]] = defaultdict(list)
    below: dict[tuple[str, int], bool] = {}
    for frames, count in main:
        for index, frame in enumerate(frames if not outside.holds(frames) else ()):
            place = frame.file, frame.line
            if frame.owner is Owner.USER and place not in below:
                below[place] = _is_below_remainder(intervals.remainders(*place), every, backwards)
            if below.get(place):
                ways[frame].append(([one for one in frames[index:] if one.owner is Owner.USER], count))
                break
    if not ways:
        return None, None
    most = max(ways, key=lambda frame: sum(count for _, count in ways[frame]))
    others = (frames for frames, _ in main if most not in frames)
    inner = inner_line(ways[most], sources, others)
    return (
        sources.at(most.file, most.line, most.function),
        sources.at(inner.file, inner.line, inner.function) if inner is not None else None,
    )


def _is_below_remainder(found: Remainders, every: int, backwards: float) -> bool:
    """Whether a line runs once in so many steps by a remainder of a number, or of one that has a name.

    What runs by the remainder that updates are made by runs in each step: gradients are accumulated.
    """
    periods = {str(every * turns) for turns in found.turns(backwards)}
    return any(period in periods or not period.isdecimal() for _, period, _ in found.own)
