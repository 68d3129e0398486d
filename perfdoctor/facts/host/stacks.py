"""Tells which lines of the user's code each phase's time passes through: StackFacts, from folded stacks."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

from perfdoctor.facts.decode import location
from perfdoctor.facts.host import torch_frames
from perfdoctor.facts.host.anchors import CodePlace, FrameStack, training_lines, updating_lines
from perfdoctor.facts.host.freed_batches import FREED, TakingLines
from perfdoctor.facts.host.line_costs import costliest, line_costs
from perfdoctor.facts.host.logging_frames import is_of_a_log, is_redirected
from perfdoctor.facts.host.logging_lines import LoggingLines
from perfdoctor.facts.host.outside_training import OutsideTraining
from perfdoctor.facts.host.sampled_shares import sampled_share
from perfdoctor.facts.host.shared_lines import SharingStatement, phases_around, sharing_statement
from perfdoctor.facts.host.tensor_reads import TensorReads
from perfdoctor.facts.user_source.frames import (
    Frame,
    Owner,
    callback_in,
    called_by_optimizer,
    in_closure,
    parse,
    wrapped,
)
from perfdoctor.facts.user_source.intervals import Intervals
from perfdoctor.facts.user_source.known_calls import PURE_METHODS
from perfdoctor.facts.user_source.library_table import of_frame, of_wait
from perfdoctor.facts.user_source.loop_roles import Loop, Role
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Sources, calls, header, logs, saves, written_below
from perfdoctor.facts.user_source.update_dependence import Dependence, may_train, of_line, only_reported
from perfdoctor.model import units
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords

NO_STACKS = Missing("no stack samples were taken")
FEW = 5  # samples of the main thread below which nothing is said
_Below = tuple[Frame, "str | None", "str | None"]  # the user's line, the innermost function, the kind
WRAP_C = {Phase.DATA_WAIT, Phase.HOST_TO_DEVICE, Phase.GRAD_SYNC}  # wrappers of what may be written in C
# A call of torch's in a looked-at step, where no frame stands in for the script's.
LETS_THROUGH = "__torch_function__"
CONVERSIONS = frozenset(
    "tensor as_tensor from_numpy Tensor FloatTensor LongTensor stack cat array asarray".split()
)
NEXT = "next"  # what resumes a generator
IN_PLACE = re.compile(r"[a-z]_$")  # `weight.mul_(x)`: tensors changed in place


def sampled_lines(rank: RankRecords, step: StepFacts, sources: Sources) -> StackFacts | Missing:
    """What stack samples of the training thread saw."""
    if not rank.stacks:
        return NO_STACKS
    main = [(frames, count) for label, frames, count in threads(rank) if label == "main"]
    seen = sum(count for _, count in main)
    if seen < FEW:
        return too_few_of("the training thread", seen)
    lines = StackLines(main, rank, sources, step)
    counted: dict[Phase, Counter[_Below]] = defaultdict(Counter)
    called_back: Counter[_Below] = Counter()  # by an optimizer: a trainer's callbacks in its closure
    for frames, count in main:
        phase, cost = lines.cost(frames)
        if cost[2] == "logging":
            lines.logging.note(cost[0], frames, count)
        if phase is Phase.OTHER and cost[2] != "compute" and called_by_optimizer(frames):
            called_back[cost] += count
        elif phase is not None:
            counted[phase][cost] += count
    total = sum(costs.total() for costs in counted.values()) + called_back.total()
    updating = counted[Phase.OPTIMIZER].total() + called_back.total()
    timed = {phase: step.share(phase) for phase in counted}
    back = step.share(Phase.OPTIMIZER) * called_back.total() / updating if updating else 0.0
    timed[Phase.OPTIMIZER] -= back
    phases = {
        phase: line_costs(costs, sampled_share(phase, timed[phase], costs.total(), total), sources)
        for phase, costs in counted.items()
    }
    phases[Phase.OTHER] = costliest(
        (
            *phases.get(Phase.OTHER, ()),
            *line_costs(called_back, sampled_share(Phase.OTHER, back, called_back.total(), total), sources),
        )
    )
    phases = {phase: tuple(map(lines.of_log, costs)) for phase, costs in phases.items() if costs}
    own = sum(count for frames, count in main if frames and _is_own(frames[-1]))
    return StackFacts(total, rank.stacks_source or "in-process", phases, min(own, total))


def too_few_of(what: str, samples: int) -> Missing:
    """What is said where no more than these were taken."""
    few = f"only {units.count(samples, 'stack sample')}" if samples else "no stack samples"
    return Missing(f"{few} of {what} {'was' if samples == 1 else 'were'} taken")


def _is_own(innermost: Frame) -> bool:
    """Whether the probe was at work, and not a function in C that it lets through, which has no frame."""
    at_work = innermost.owner is Owner.PROBE and not innermost.profiles  # windows are counted by themselves
    return at_work and innermost.phase not in WRAP_C and not innermost.name.endswith(LETS_THROUGH)


def threads(rank: RankRecords) -> Iterator[tuple[str, tuple[Frame, ...], int]]:
    """Every stack as (thread, frames from the outermost in, samples)."""
    for names, count in rank.stacks:
        if names:
            yield names[0], tuple(frame for name in names[1:] if (frame := parse(name)) is not None), count


class StackLines:
    """Puts stacks of the training thread down to a phase, a user's line and a kind."""

    def __init__(
        self, main: Sequence[FrameStack], rank: RankRecords, sources: Sources, step: StepFacts
    ) -> None:
        self.sources = sources
        self._main, self._step = main, step
        self.anchors: dict[CodePlace, set[int]] = training_lines(main)
        self._updating = updating_lines(main)
        self._updates = {place: set(lines) for place, lines in self._updating.items()}
        self.results: dict[CodePlace, set[str]] = defaultdict(set)
        self._loops: dict[CodePlace, Loop | None] = {}
        self._needs: dict[tuple[str, int, ast.stmt | None], bool] = {}
        self._intervals = Intervals(sources)
        self.outside = OutsideTraining(main, sources, self._intervals)
        self.logging = LoggingLines(sources, self._intervals, self.only_reported)
        for event in (*rank.of("root"), *rank.of("settings"), *rank.of("grad_names")):
            at = location(event.get("at"))
            if at is not None and at.function:
                place = at.file, at.function.rpartition(".")[2]
                self.anchors[place].add(at.line)
                self._updating[place].add(at.line)
                if event.get("event") != "root":  # which is where the model is called
                    self._updates.setdefault(place, set()).add(at.line)
                self.results[place].update(str(name) for name in event.get("names") or ())
        self._add_callers(main)
        self._taking = TakingLines(main, sources)
        self._tensor_reads = TensorReads(main, sources, (file for file, _ in self.anchors))

    def _add_callers(self, main: Sequence[FrameStack]) -> None:
        """Add the lines that call a function known to train, of callers in which no sample met training."""
        known = {place for place, lines in self.anchors.items() if lines}
        for frames, _ in main:
            trains = [index for index, frame in enumerate(frames) if (frame.file, frame.name) in known]
            for frame in frames[: trains[0]] if trains else ():
                if frame.owner is not Owner.PROBE:
                    self.anchors[frame.file, frame.name].add(frame.line)

    def loop(self, frame: Frame) -> Loop | None:
        """The loop in a frame's function, where training passes through that function."""
        place = frame.file, frame.name
        if not self.anchors.get(place):
            return None
        if place not in self._loops:
            listing, may = self.sources.file(frame.file), partial(self._may_train, frame.file)
            updates = self._updates.get(place, set()) if any(self._updates.values()) else None
            self._loops[place] = Loop(
                listing, self.anchors[place], self.results[place], may, self._updating[place], updates
            )
        return self._loops[place]

    def _may_train(self, file: str, node: ast.stmt) -> bool:
        """Whether a statement trains for all that the source and the samples show."""
        called = {name for _, name in calls(node)}
        idles = bool(called & self._idle) and called <= self._idle | PURE_METHODS
        return not idles and may_train(self.sources, file, node)

    @cached_property
    def _idle(self) -> frozenset[str]:
        """The names of functions of the user's that were seen outside the phases and lead to none."""
        bare = [frames for frames, _ in self._main if not wrapped(frames)]
        seen = {(frame.file, frame.name) for frames in bare for frame in frames if frame.owner is Owner.USER}
        training = {name for (_, name), lines in self.anchors.items() if lines}
        return frozenset(name for _, name in seen if name not in training)

    def cost(self, frames: Sequence[Frame]) -> tuple[Phase | None, _Below]:
        """Phase, user's line, innermost function beyond it, and kind; no phase outside of training."""
        nowhere = (Frame("", "", 0, Owner.LIBRARY), None, None)
        phases = wrapped(frames)
        indices = [index for index, frame in enumerate(frames) if frame.owner is Owner.USER]
        if not indices or self.outside.holds(frames):
            return None, nowhere
        if not phases or in_closure(frames[phases[-1] :]):
            return self._between(frames, indices) or (None, nowhere)
        logged = self._between(frames, indices) if is_redirected(frames[phases[-1] :]) else None
        if logged is not None and logged[1][2] == "logging":
            return logged
        leaf = frames[-1].function if len(frames) > indices[-1] + 1 else None
        return frames[phases[-1]].phase, (frames[indices[-1]], leaf, None)

    def _between(self, frames: Sequence[Frame], indices: Sequence[int]) -> tuple[Phase, _Below] | None:
        """What a stack is at that no phase is around; None outside of training. `indices`: user's frames."""
        beyond = frames[indices[-1] + 1 :]
        user, leaf = frames[indices[-1]], beyond[-1].function if beyond else None
        role, level = self._role(frames)
        if role is Role.OUTSIDE:
            return None
        chain = [frames[index] for index in indices if index >= level]
        kind = self._kind(frames, indices[-1], role, chain)
        if kind == "logging" and chain:  # thin out what leads to the logger, not what happens inside it
            user = self.logging.line(chain, beyond)
        return Phase.OTHER, (user, leaf, kind)

    def apart(self, frames: Sequence[Frame]) -> tuple[Frame, ...]:
        """The user's lines from the training loop inwards, of what is beside the training."""
        role, level = self._role(frames)
        if role is not Role.REST or level < 0:
            return ()
        return tuple(frame for frame in frames[level:] if frame.owner is Owner.USER)

    def level(self, frames: Sequence[Frame]) -> int:
        """The frame from which on a stack is part of the step: in the training loop, or calling the phase."""
        phases = wrapped(frames)
        if not phases or in_closure(frames[phases[-1] :]):
            return max(0, self._role(frames)[1])
        first = next(index for index in phases if frames[index].phase is frames[phases[-1]].phase)
        return max((index for index in range(first) if frames[index].owner is Owner.USER), default=first)

    def only_reported(self, at: Location) -> bool:
        """Whether the source shows that no update depends on a line."""
        function = (at.function or "").rpartition(".")[2]
        return only_reported(self.sources, at, self.anchors.get((at.file, function), ()))

    def _needed(self, frames: Sequence[Frame], index: int) -> bool:
        """Whether the source shows that an update depends on a line, whatever the names are that it calls.

        Of several statements on the line it is about the one that the stack is at, where that is told.
        """
        frame, shared = frames[index], self._sharing(frames, index)
        only = shared.node if shared is not None and shared.role is not Role.TRAINS else None
        place = frame.file, frame.line, only
        if place not in self._needs:
            anchors = self.anchors.get((frame.file, frame.name), ())
            found = of_line(self.sources, Location(frame.file, frame.line, frame.name), anchors, only)
            self._needs[place] = found is Dependence.UPDATE
        return self._needs[place]

    def of_log(self, cost: LineCost) -> LineCost:
        """A line that logs, with what LoggingLines know of it, and whether it reads tensors."""
        if cost.kind != "logging":
            return cost
        logged = self.logging.of(cost)
        whole = Frame(cost.at.function or "", cost.at.file, cost.at.line, Owner.USER)
        reads = self._tensor_reads.at(cost, None if logged.interval.of_lightning else self.loop(whole))
        return replace(logged, reads_tensor=reads)

    def _role(self, frames: Sequence[Frame]) -> tuple[Role, int]:
        """What the line is for in the innermost training loop, and the frame that says so."""
        role, level = self._role_in_loop(frames)
        callback = callback_in(frames)
        if level < callback and role in {Role.TRAINS, Role.COMPUTE}:
            return Role.REST, callback  # beside the training, whatever its trainer gets from it
        return role, level

    def _role_in_loop(self, frames: Sequence[Frame]) -> tuple[Role, int]:
        inside, level, taken = not self.anchors, -1, False
        if self.outside.holds(frames):
            return Role.OUTSIDE, level
        for index, frame in enumerate(frames):
            loop = self.loop(frame)
            if loop is None:
                continue
            if not inside and loop.units:
                inside = loop.is_loop and loop.contains(frame.line)
            elif not inside:
                inside = not self.outside.only_calls((frame.file, frame.name))
            if not inside and (loop.is_loop or loop.role(frame.line) is not Role.TRAINS):
                return Role.OUTSIDE, index
            level = index
            role = loop.role(frame.line)
            if role is Role.REST and taken and loop.gives(frame.line):
                role = Role.COMPUTE
            if role is not Role.TRAINS:
                return (Role.REST if role is Role.OUTSIDE else role), index
            taken = loop.takes(frame.line)
        if not inside or level < 0:
            return (Role.OUTSIDE if self.anchors else Role.REST), level
        shared = self._sharing(frames, level)
        if shared is not None and shared.role is not Role.TRAINS:
            return (Role.REST if shared.role is Role.OUTSIDE else shared.role), level
        return (Role.DATA if self._feeds(frames, level) else Role.TRAINS), level

    def _sharing(self, frames: Sequence[Frame], index: int) -> SharingStatement | None:
        """The statement that a stack is at, of several on one line of a function that trains."""
        found = self._perhaps(frames, index)
        return None if found is not None and found.doubtful and not self._rests else found

    def _perhaps(self, frames: Sequence[Frame], index: int) -> SharingStatement | None:
        frame = frames[index]
        loop = self.loop(frame)
        if loop is None:
            return None
        return sharing_statement(self.sources.file(frame.file), loop, frame.line, frames[index + 1 :])

    @cached_property
    def _rests(self) -> bool:
        """Whether the timers put most of the time that shared lines leave in doubt outside the phases."""
        self._rests = False  # while the others are counted
        total = sure = doubtful = 0
        for frames, count in self._main:
            phase, (_, _, kind) = self.cost(frames)
            found = self._perhaps(frames, len(frames) - 1) if frames and phase is Phase.OTHER else None
            total += count if phase is not None else 0
            if found is not None and found.doubtful:
                doubtful += count
            elif phase is Phase.OTHER and kind != "compute":
                sure += count
        left = self._step.share(Phase.OTHER) * total - sure
        return 2 * left > doubtful  # all of it or none, whichever is nearer

    def phases_around(
        self, frames: Sequence[Frame], index: int, phases: Sequence[Phase]
    ) -> tuple[Sequence[Phase], Sequence[Phase]]:
        """Of the phases that a frame's line leads into, those before and after what the stack is at."""
        frame, shared = frames[index], self._sharing(frames, index)
        loop = self.loop(frame) if shared is not None else None
        if shared is not None and loop is not None:
            around = phases_around(self.sources.file(frame.file), loop, shared.node, phases)
            if around is not None:
                return around
        return phases[:1], phases[1:]

    def _feeds(self, frames: Sequence[Frame], level: int) -> bool:
        """Whether what runs below a training line makes one of its arguments: `model(make_batch())`.

        A call in C has no frame: on the line itself, time that no wrapper saw goes into converting arguments;
        and below `update(next(batches))`, the line of a generator, whose name is none of those called there.
        """
        shared = self._sharing(frames, level)
        node = shared.node if shared else self.sources.file(frames[level].file).statement(frames[level].line)
        outer = (
            [call for part in header(node) for call in ast.walk(part) if isinstance(call, ast.Call)]
            if node
            else []
        )
        arguments = [
            inner for call in outer for part in (*call.args, *call.keywords) for inner in ast.walk(part)
        ]
        made = {called_name(inner) for inner in arguments if isinstance(inner, ast.Call)}
        if level + 1 == len(frames):
            return bool(made & CONVERSIONS)
        below = frames[level + 1]
        resumed = NEXT in made and below.name not in set(map(called_name, outer))
        return below.owner is Owner.USER and (below.name in made or resumed)

    def _kind(self, frames: Sequence[Frame], at: int, role: Role, chain: Sequence[Frame]) -> str | None:
        """The kind of what a stack does at its innermost line of the user's, the last of the chain."""
        user, beyond, shared = frames[at], frames[at + 1 :], self._sharing(frames, at)
        listing = self.sources.file(user.file)
        node = shared.node if shared else listing.statement(user.line)
        written = [node, *written_below(node)] if node is not None else []
        if any(map(torch_frames.saves, (*chain[1:], *beyond))):
            return "checkpoint"
        if any(map(saves, written)) and not self._needed(frames, at):
            return "checkpoint"
        if any(map(is_of_a_log, beyond)) or any(logs(one, writers=listing.writers) for one in written):
            return "logging"
        logged = self.logging.is_called(chain) or self.logging.is_handed(chain)
        if logged and not self._needed(
            frames, next(i for i, frame in enumerate(frames) if frame is chain[0])
        ):
            return "logging"
        if role is Role.DATA and torch_frames.calls_model(beyond):
            return "compute"  # of an environment's or a policy's, with weights that are trained
        if role is Role.DATA and self._taking.frees(frames):
            return FREED
        if role is Role.DATA:
            return "queue" if _takes_over(beyond) else "data"
        if role is Role.DRAWS:
            return "drawn"
        in_torch = torch_frames.computes(beyond)
        in_place = node is not None and any(IN_PLACE.search(name) for _, name in calls(node))
        in_place = in_place and not any(map(torch_frames.lists, beyond))
        return "compute" if role in {Role.COMPUTE, Role.TRAINS} or in_torch or in_place else None


def _takes_over(beyond: Sequence[Frame]) -> bool:
    """Whether a line waits for what a thread hands on, and not in a library that reads with threads."""
    return bool(beyond) and of_wait(beyond[-1]) is not None and not any(map(of_frame, beyond))
