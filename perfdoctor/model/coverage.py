"""Which time of the step findings are about, by phase and by line: what is left is nobody's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from perfdoctor.model.change import NOTHING
from perfdoctor.model.concluded import Advice
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import Location, Phase

Place = tuple[str, int]  # file, line
# What a change of how batches are made is about: the sampler stays in the training process.
MAKING = frozenset(WaitPart) - {WaitPart.SAMPLER}


class Part(Protocol):
    """Time of the step in one phase, below some lines."""

    @property
    def phase(self) -> Phase:
        """Which phase it is of."""

    @property
    def wait(self) -> WaitPart | None:
        """Which part of a wait for a batch it is; None where that is not known, or it is no such wait."""

    @property
    def share(self) -> float:
        """How much of the step it is."""

    @property
    def passes(self) -> Sequence[Location]:
        """The user's lines that it lies below, the innermost last."""


@dataclass(frozen=True)
class Cover:
    """At most `share` of the step: in that phase, or in any (None), and below these lines, or any (none)."""

    share: float
    phase: Phase | None = None
    places: frozenset[Place] = frozenset()
    waits: frozenset[WaitPart] = frozenset()  # of a wait for a batch, these parts only

    def holds(self, part: Part) -> bool:
        """Whether it is about such time."""
        if self.phase is not None and part.phase is not self.phase:
            return False
        if self.waits and part.wait not in self.waits:
            return False
        return not self.places or any((at.file, at.line) in self.places for at in part.passes)

    def names(self, part: Part) -> bool:
        """Whether the innermost line of such time is one of its own."""
        return any((at.file, at.line) in self.places for at in part.passes[-1:])


@dataclass(frozen=True)
class Covered:
    """The time that the findings of a run are about."""

    covers: tuple[Cover, ...] = ()

    @classmethod
    def by(cls, advices: Iterable[Advice]) -> Covered:
        """What these are about."""
        return cls(tuple(cover for advice in advices for cover in covers(advice)))

    def left(self, parts: Sequence[Part], around: frozenset[Place] = frozenset()) -> list[float]:
        """Of each part the share of the step that is nobody's; parts use up a cover in their order.

        All time of a line that a finding names is the finding's, though no more of it than the finding says
        can go: stack samples measure a line otherwise than the timers do that many findings go by.
        `around` are lines that whole steps run below, as where a framework is told to train: a finding at
        such a line alone is about none of what runs there, unless it is about all of a phase.
        """
        pools: dict[Cover, float] = {}
        for cover in self.covers:
            places = cover.places - around
            if places or not cover.places or cover.phase is not None:
                told = replace(cover, places=places)
                pools[told] = pools.get(told, 0.0) + cover.share
        shares = []
        for part in parts:
            share = part.share
            for cover in pools:
                if cover.holds(part):
                    taken = share if cover.names(part) else min(share, pools[cover])
                    pools[cover] = max(0.0, pools[cover] - taken)
                    share -= taken
            shares.append(share)
        return shares


def covers(advice: Advice) -> Iterator[Cover]:
    """What a finding is about: the most that its change takes away, at its lines; of waits, all it can reach.

    A change that says no line may be about any.
    """
    change = advice.change
    if change is None:
        return
    in_loop = change.step.high + change.moved.high + change.pauses.high
    if in_loop > 0:
        yield Cover(in_loop, advice.phase, frozenset((at.file, at.line) for at in advice.at))
    if change.batch != NOTHING or change.workers is not None or change.prefetch is not None:
        yield Cover(1.0, Phase.DATA_WAIT, waits=MAKING)
    elif change.starts != NOTHING:
        yield Cover(change.starts.high, Phase.DATA_WAIT)
    elif change.others != NOTHING:
        yield Cover(change.others.high, Phase.DATA_WAIT)
