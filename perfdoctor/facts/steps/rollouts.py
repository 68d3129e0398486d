"""Tells passes in eval mode that make what training computes with next from validation.

The probe takes a pass of a trained model in eval mode for validation as it runs. Where the source shows that
backward passes compute with its results, it is a part of training: a policy plays, and its actions end up in
a replay buffer or in advantage estimates; a model labels what it is trained on next. It counts as `forward`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from perfdoctor.facts.host.anchors import TORN
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.steps.rollout_share import as_forward, told
from perfdoctor.facts.user_source.frames import Frame, Owner, parse, wrapped
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.value_flow import ValueFlow
from perfdoctor.model.measured import Phase
from perfdoctor.model.note import Note
from perfdoctor.runs.raw import Stack
from perfdoctor.runs.types import RankRecords

FEW = 5  # samples in validation, below which nothing is said
MAIN, FORWARD_WRAPPER = "main", "module_call"
# Samples of passes in train mode at a line, against those in eval mode: with fewer, it does not do both.
# A policy's first passes, before it was trained, are none in eval mode for the probe.
SHARED = 0.2


class CodeLine(NamedTuple):
    """A line of the user's."""

    file: str
    function: str
    number: int


def told_apart(
    rank: RankRecords, steps: Steps, sources: Sources
) -> tuple[RankRecords, Steps, tuple[Note, ...]]:
    """The records with such passes as forward ones, in the stacks and in the steps, and a note that says so.

    Where there are others as well, a step's passes are divided as the samples of all of them are.
    """
    if not steps.phases[Phase.VALIDATION].any():
        return rank, steps, ()
    read = [_Read.of(stack) for stack in rank.stacks]
    seen = sum(one.count for one in read if one.validates)
    if seen < FEW:
        return rank, steps, ()
    places = _EvalPlaces(sources, read)
    feeding = [one.validates and places.feed_updates(one.lines) for one in read]
    share = sum(one.count for one, feeds in zip(read, feeding, strict=True) if feeds) / seen
    if share < TORN:
        return rank, steps, ()
    share = 1.0 if share > 1.0 - TORN else share
    phases = as_forward(steps.phases, share)
    stacks = tuple(one.as_forward if feeds else one.stack for one, feeds in zip(read, feeding, strict=True))
    return replace(rank, stacks=stacks), replace(steps, phases=phases), (told(share),)


class _Read:
    """One stack of a thread, with its frames."""

    def __init__(self, stack: Stack, frames: Sequence[tuple[int, Frame]]) -> None:
        self.stack = stack
        self.count = stack[1]
        self._frames = frames  # each with its place in the stack
        phases = wrapped([frame for _, frame in frames])
        self._wrapper = phases[-1] if phases else None
        self.phase = frames[phases[-1]][1].phase if phases else None

    @classmethod
    def of(cls, stack: Stack) -> _Read:
        """The stack read; of other threads than the one that trains, nothing is."""
        names = stack[0] if stack[0] and stack[0][0] == MAIN else ()
        parsed = ((place, parse(name)) for place, name in enumerate(names) if place)
        return cls(stack, [(place, frame) for place, frame in parsed if frame is not None])

    @property
    def validates(self) -> bool:
        """Whether the probe took it for validation."""
        return self.phase is Phase.VALIDATION

    @property
    def lines(self) -> tuple[CodeLine, ...]:
        """The user's lines that lead to the phase, innermost first."""
        leading = [frame for _, frame in self._frames[: self._wrapper]]
        users = (one for one in reversed(leading) if one.owner is Owner.USER)
        return tuple(CodeLine(one.file, one.function, one.line) for one in users)

    @property
    def as_forward(self) -> Stack:
        """The stack as that of a forward pass."""
        names = list(self.stack[0])
        for place, frame in self._frames:
            if frame.phase is Phase.VALIDATION:
                names[place] = FORWARD_WRAPPER + names[place][len(frame.function) :]
        return (tuple(names), *self.stack[1:])


class _EvalPlaces:
    """Whether training computes with the results of passes, by the lines that call them."""

    def __init__(self, sources: Sources, read: Sequence[_Read]) -> None:
        self._flow = ValueFlow(sources)
        self._known: dict[tuple[CodeLine, ...], bool] = {}
        # Calls of functions in which backward passes are made: the function, and the lines that lead to it.
        self._updating = {
            (*line[:2], one.lines[place + 1 :])
            for one in read
            if one.phase is Phase.BACKWARD
            for place, line in enumerate(one.lines)
        }
        self._validating, self._training = Counter[CodeLine](), Counter[CodeLine]()
        for one in read:
            if one.validates or one.phase is Phase.FORWARD:
                counted = self._validating if one.validates else self._training
                counted.update(dict.fromkeys(one.lines, one.count))

    def feed_updates(self, lines: tuple[CodeLine, ...]) -> bool:
        """Whether they do. Of the calls around these lines the innermost tells that makes backward passes."""
        if lines not in self._known:
            self._known[lines] = self._feed(lines)
        return self._known[lines]

    def _feed(self, lines: tuple[CodeLine, ...]) -> bool:
        for place, line in enumerate(lines):
            if (*line[:2], lines[place + 1 :]) in self._updating:
                feeds = self._flow.feeds_backward(line.file, line.number)
                if feeds is not None:
                    return feeds and self._training[line] < SHARED * self._validating[line]
        return False
