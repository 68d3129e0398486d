"""Divides each phase of the step among the stacks that were sampled in it: StackCosts.

The timers say how long a phase is, the samples how it is shared out. What no wrapper of the probe is around
is put where the timers put it: between a forward pass and its backward pass to the former, between that and
the update to the latter, what an optimizer calls back to the update, all else to `other`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from perfdoctor.facts.data import wait_parts
from perfdoctor.facts.data.batch_stages import FETCH
from perfdoctor.facts.data.batch_stages import FEW as FEW_OF_WORKERS
from perfdoctor.facts.host.anchors import OF_STEPS, TORN, FrameStack
from perfdoctor.facts.host.stacks import FEW, NO_STACKS, StackLines, threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.sync_in_backward import exchanging
from perfdoctor.facts.user_source.frames import Frame, Owner, called_by_optimizer, in_closure, wrapped
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import CLASS_OF_KIND, Bottleneck, class_of
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords

Marks = Mapping[tuple[str, str], list[tuple[int, Phase]]]  # by file and function

TELLING = 20  # samples of a phase: fewer may miss what takes a tenth of it
TRAINER = "trainer"  # the kind of what a library does in a loop of its own: `trainer.fit(model)`
ORDER = tuple(Phase)  # as a step passes through them
# (phase before, phase after) of time that no wrapper is around, and the phase that the timers charge with it.
BETWEEN = {
    (Phase.FORWARD, Phase.BACKWARD): Phase.FORWARD,
    (Phase.BACKWARD, Phase.BACKWARD): Phase.FORWARD,
    (Phase.BACKWARD, Phase.OPTIMIZER): Phase.OPTIMIZER,
}


@dataclass(frozen=True)
class StackCost:
    """Time below one line of the user's, reached in one way."""

    phase: Phase
    path: tuple[Frame, ...]  # lines of the user's from the loop, or from the call of the phase, inwards
    beyond: tuple[Frame, ...]  # what that line calls of other people's code
    samples: int
    seconds: float = 0.0  # a step
    kind: str | None = (
        None  # of time that no wrapper is around: "logging", "data", "compute", ..., "rest", TRAINER
    )
    wait: WaitPart | None = None
    in_worker: bool = False
    callers: tuple[Frame, ...] = ()  # lines of the user's further out

    @property
    def line(self) -> Frame:
        """The line that has the time."""
        return self.path[-1]


@dataclass(frozen=True)
class StackCosts:
    """The step by stacks. The seconds of a phase's costs and what was not seen of it add up to the phase."""

    samples: int
    costs: tuple[StackCost, ...]
    unseen_s: Mapping[Phase, float]
    anchors: frozenset[tuple[str, int]]  # (file, line) that training itself passes through
    # Of the optimizer's phase: clipping, what a scaler does and what a closure calls lie there as well.
    in_updates: float = 1.0


@fact
def stack_costs(rank: RankRecords, step: StepFacts, sources: Sources) -> StackCosts | Missing:
    """The phases of the step by what stack samples saw in them."""
    if not rank.stacks:
        return NO_STACKS
    every = list(threads(rank))
    main = [
        (frames, count)
        for label, frames, count in every
        if label == "main" and not any(frame.profiles for frame in frames)
    ]
    if sum(count for _, count in main) < FEW:
        return Missing("too few stack samples of the training thread were taken")
    lines = StackLines(main, rank, sources, step)
    main = [(frames, count) for frames, count in main if not lines.outside.holds(frames)]
    marks = _marks(main)
    found = [cost for frames, count in main if (cost := _cost(frames, count, lines, marks)) is not None]
    found = _with_gradient_sync(found, step)
    samples = Counter[Phase]()
    for cost in found:
        samples[cost.phase] += cost.samples
    timed = [
        replace(cost, seconds=step.seconds.get(cost.phase, 0.0) * cost.samples / samples[cost.phase])
        for cost in found
    ]
    seen = [cost for cost in _by_workers(timed, every) if cost.path]
    return StackCosts(
        samples.total(),
        tuple(_together(seen)),
        {phase: max(0.0, whole - _seconds(seen, phase)) for phase, whole in step.seconds.items()},
        frozenset((file, line) for (file, _), anchored in lines.anchors.items() for line in anchored),
        _in_updates(main, samples[Phase.OPTIMIZER]),
    )


def charged_most(costs: Iterable[StackCost]) -> Bottleneck:
    """The class that most of their time is charged to, as in the verdict."""
    seconds: dict[Bottleneck, float] = defaultdict(float)
    for cost in costs:
        seconds[class_of(cost.phase, cost.kind)] += cost.seconds
    return max(seconds, key=lambda each: seconds[each])


def share_of_batch(costs: Iterable[StackCost], step: StepFacts) -> float:
    """The share of the waits for batches that they are."""
    waited_s = step.seconds.get(Phase.DATA_WAIT, 0.0)
    return min(1.0, _seconds(costs, Phase.DATA_WAIT) / waited_s) if waited_s else 0.0


def _with_gradient_sync(costs: Sequence[StackCost], step: StepFacts) -> list[StackCost]:
    """The costs, with the samples of backward in which gradients were exchanged in the phase of that."""
    samples = Counter[Phase]()
    for cost in costs:
        samples[cost.phase] += cost.samples
    backward = [cost for cost in costs if cost.phase is Phase.BACKWARD]
    divided = [cost for cost in costs if cost.phase is not Phase.BACKWARD]
    exchanged = exchanging([cost.samples for cost in backward], step.seconds, samples)
    for cost, count in zip(backward, exchanged, strict=True):
        divided.append(replace(cost, phase=Phase.GRAD_SYNC, samples=count))
        divided.append(replace(cost, samples=cost.samples - count))
    return [cost for cost in divided if cost.samples]


def _in_updates(main: Sequence[FrameStack], sampled: int) -> float:
    """The share of the optimizer's phase in which an optimizer steps; all of it where few samples tell.

    The probe's own wrapper is around a scaler, which waits for the device before it calls the optimizer. A
    closure that an optimizer calls, as a trainer's with its callbacks, is no work of its own.
    """
    if sampled < TELLING:
        return 1.0
    inside = (count for frames, count in main if _updates(frames))
    return min(1.0, sum(inside) / sampled)


def _updates(frames: Sequence[Frame]) -> bool:
    stepping = [index for index, frame in enumerate(frames) if _steps(frame)]
    return bool(stepping) and not in_closure(frames[stepping[-1] :], of_libraries=True)


def _steps(frame: Frame) -> bool:
    return frame.owner is Owner.TORCH and frame.phase is Phase.OPTIMIZER


def _seconds(costs: Iterable[StackCost], phase: Phase) -> float:
    return sum(cost.seconds for cost in costs if cost.phase is phase)


def _cost(frames: Sequence[Frame], count: int, lines: StackLines, marks: Marks) -> StackCost | None:
    """What a stack is at; one of a phase that passes no line of the user's has no path."""
    phases = wrapped(frames)
    users = [index for index, frame in enumerate(frames) if frame.owner is Owner.USER]
    if not users:
        blind = frames[phases[-1]].phase if phases else None
        return StackCost(blind, (), (), count) if blind is not None else None
    phase, (_, _, kind) = lines.cost(frames)
    if phase is None:
        return None
    level = lines.level(frames)
    if level > users[-1]:  # the loop is a library's
        level, kind = users[-1], TRAINER if phase is Phase.OTHER else kind
    cost = StackCost(
        phase,
        path=tuple(frames[index] for index in users if index >= level),
        beyond=tuple(frame for frame in frames[users[-1] + 1 :] if frame.owner is not Owner.PROBE),
        samples=count,
        callers=tuple(frames[index] for index in users if index < level),
    )
    if phase is Phase.OTHER:
        return replace(cost, phase=_timed_as(frames, kind, marks, lines), kind=kind or "rest")
    if phase is Phase.DATA_WAIT:
        return replace(cost, wait=wait_parts.of_main(frames[phases[-1] + 1 :]))
    return cost


def _marks(main: Sequence[FrameStack]) -> Marks:
    """By function, the lines that lead into a phase of training; samples torn between lines are outvoted."""
    counted: dict[tuple[str, str], Counter[tuple[int, Phase]]] = defaultdict(Counter)
    for frames, count in main:
        steps = [index for index in wrapped(frames) if frames[index].phase in OF_STEPS]
        if not steps:
            continue
        phase = frames[steps[-1]].phase
        for frame in frames[: steps[-1]]:
            if frame.owner is not Owner.PROBE and phase is not None:
                counted[frame.file, frame.name][frame.line, phase] += count
    return {place: _outvoted(marks) for place, marks in counted.items()}


def _outvoted(marks: Counter[tuple[int, Phase]]) -> list[tuple[int, Phase]]:
    """The lines in order, and the phases of one line as a step passes through them."""
    of_phase = Counter[Phase]()
    for (_, phase), count in marks.items():
        of_phase[phase] += count
    sure = (mark for mark, count in marks.items() if count >= TORN * of_phase[mark[1]])
    return sorted(sure, key=lambda mark: (mark[0], ORDER.index(mark[1])))


def _timed_as(frames: Sequence[Frame], kind: str | None, marks: Marks, lines: StackLines) -> Phase:
    """The phase that the timers charge with what is no part of any."""
    phases = wrapped(frames)
    if phases and not called_by_optimizer(frames):
        return frames[phases[-1]].phase or Phase.OTHER  # a hook of a trainer's inside a wrapper's forward
    if CLASS_OF_KIND.get(kind or "") is Bottleneck.DATA:
        return Phase.OTHER
    return _charged(frames, marks, lines, Phase.OPTIMIZER if phases else Phase.OTHER)


def _charged(frames: Sequence[Frame], marks: Marks, lines: StackLines, rest: Phase) -> Phase:
    """The phase that the timers charge with a stack that no wrapper is on: what is before it, and after."""
    before = after = None
    innermost = True
    for index, frame in reversed(list(enumerate(frames))):
        around, again = _in_turns(marks.get((frame.file, frame.name), []), frame, lines.sources)
        on_it = [phase for line, phase in around if line == frame.line] if innermost else []
        passed, coming = lines.phases_around(frames, index, on_it) if on_it else ((), ())
        earlier = [*(phase for line, phase in around if line < frame.line), *passed]
        later = [*coming, *(phase for line, phase in around if line > frame.line)]
        if again:
            earlier, later = earlier or [around[-1][1]], later or [around[0][1]]
        innermost = innermost and not around
        before = before or (earlier[-1] if earlier else None)
        after = after or (later[0] if later else None)
    return BETWEEN.get((before, after), rest) if before and after else rest


def _in_turns(
    around: list[tuple[int, Phase]], frame: Frame, sources: Sources
) -> tuple[list[tuple[int, Phase]], bool]:
    """The phases around a line that its turn of a loop leads into, and whether the loop comes back to them.

    In a rollout, forward passes follow each other, and the backward pass that stands below the loop follows
    the last of them only.
    """
    for loop in reversed(list(sources.file(frame.file).loops(frame.line)) if around else []):
        inside = [mark for mark in around if loop.lineno <= mark[0] <= (loop.end_lineno or 0)]
        if inside:
            return inside, True
    return around, False


def _by_workers(
    costs: Sequence[StackCost], every: Iterable[tuple[str, Sequence[Frame], int]]
) -> Iterator[StackCost]:
    """The costs, with what was waited for workers divided among what the workers did."""
    waiting = [cost for cost in costs if cost.wait is WaitPart.WORKERS]
    yield from (cost for cost in costs if cost.wait is not WaitPart.WORKERS)
    loop = max(waiting, key=attrgetter("samples"), default=None)
    made = [cost for label, frames, count in every if (cost := _of_worker(label, frames, count))]
    busy = sum(cost.samples for cost in made)
    if loop is None or busy < FEW_OF_WORKERS:
        yield from waiting
        return
    waited_s = sum(cost.seconds for cost in waiting)
    for cost in made:
        path = (*loop.path, *cost.path)
        yield replace(cost, path=path, callers=loop.callers, seconds=waited_s * cost.samples / busy)


def _of_worker(label: str, frames: Sequence[Frame], count: int) -> StackCost | None:
    """What a stack of a loader worker is at, while the worker is at work."""
    part = wait_parts.of_worker(frames) if label.startswith("worker ") else None
    if part is None:
        return None
    first = max((index for index, frame in enumerate(frames) if FETCH.search(frame.file)), default=0)
    users = [index for index, frame in enumerate(frames) if index > first and frame.owner is Owner.USER]
    beyond = frames[users[-1] + 1 :] if users else frames[first + 1 :]
    return StackCost(
        Phase.DATA_WAIT,
        tuple(frames[index] for index in users),
        tuple(frame for frame in beyond if frame.owner is not Owner.PROBE),
        count,
        wait=part,
        in_worker=True,
    )


def _together(costs: Iterable[StackCost]) -> Iterator[StackCost]:
    """Each way down once."""
    added: dict[StackCost, tuple[int, float]] = {}
    for cost in costs:
        way = replace(cost, samples=0, seconds=0.0)
        samples, seconds = added.get(way, (0, 0.0))
        added[way] = samples + cost.samples, seconds + cost.seconds
    for way, (samples, seconds) in added.items():
        yield replace(way, samples=samples, seconds=seconds)
