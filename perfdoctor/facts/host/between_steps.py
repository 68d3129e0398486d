"""Finds work between the steps that training does not need, by stack samples: BetweenStepsFacts."""

from __future__ import annotations

from collections import Counter, defaultdict

from perfdoctor.facts.host.sampled_shares import share_of
from perfdoctor.facts.host.stacks import FEW, NO_STACKS, StackLines, threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords


@dataclass(frozen=True)
class BetweenLine:
    """A line of the training loop, and where below it most of its time goes."""

    at: Location
    inside: Location  # the innermost line of the user's; the same one where it calls none of the user's code
    share: float  # of the training thread's wall time
    samples: int


@dataclass(frozen=True)
class BetweenStepsFacts:
    """Lines of the loop on which no update depends and that neither log nor save, costliest first."""

    lines: tuple[BetweenLine, ...]


@fact
def between_steps_facts(rank: RankRecords, step: StepFacts, sources: Sources) -> BetweenStepsFacts | Missing:
    """What stack samples saw of such lines."""
    if not rank.stacks:
        return NO_STACKS
    main = [(frames, count) for label, frames, count in threads(rank) if label == "main"]
    if sum(count for _, count in main) < FEW:
        return Missing("too few stack samples of the training thread were taken")
    lines = StackLines(main, rank, sources, step)
    other = total = 0
    counted: dict[Frame, Counter[Frame]] = defaultdict(Counter)
    for frames, count in main:
        phase, (user, _, kind) = lines.cost(frames)
        total += count if phase is not None else 0
        other += count if phase is Phase.OTHER else 0
        apart = lines.apart(frames) if phase is Phase.OTHER and kind is None else None
        if apart is not None:
            counted[apart][user] += count
    share = share_of(step, Phase.OTHER, other, total)
    apart_at = {line: _location(line, sources) for line in counted}
    return BetweenStepsFacts(
        tuple(
            BetweenLine(
                apart_at[line],
                _location(below.most_common(1)[0][0], sources),
                share * below.total() / other,
                below.total(),
            )
            for line, below in sorted(counted.items(), key=lambda entry: -entry[1].total())
            if lines.only_reported(apart_at[line])
        )
    )


def _location(frame: Frame, sources: Sources) -> Location:
    return Location(frame.file, frame.line, frame.function, sources.text(frame.file, frame.line))
