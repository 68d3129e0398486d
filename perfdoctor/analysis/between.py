"""Work between the steps that training does not need: BetweenFacts, from stack samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from perfdoctor.analysis.frames import Frame
from perfdoctor.analysis.source import Source, Sources
from perfdoctor.analysis.stacks import FEW, StackLines, share_of, threads
from perfdoctor.model import Location, Phase, StepFacts
from perfdoctor.recorded import RankRecords


@dataclass(frozen=True)
class BetweenLine:
    """A line of the training loop, and where below it most of its time goes."""

    at: Location
    inside: Location  # the innermost line of the user's; the same one where it calls none of the user's code
    share: float  # of the training thread's wall time
    samples: int


@dataclass(frozen=True)
class BetweenFacts:
    """Lines of the training loop that neither train nor feed, log or save, costliest first."""

    lines: tuple[BetweenLine, ...]


def between_facts(records: RankRecords, step: StepFacts, source: Source) -> BetweenFacts | str:
    """What stack samples saw of such lines, or why that is not known."""
    main = [(frames, count) for label, frames, count in threads(records) if label == "main"]
    if sum(count for _, count in main) < FEW:
        return "too few stack samples of the training thread were taken"
    sources = Sources(source)
    lines = StackLines(main, records, sources)
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
    return BetweenFacts(
        tuple(
            BetweenLine(
                _location(line, sources),
                _location(below.most_common(1)[0][0], sources),
                share * below.total() / other,
                below.total(),
            )
            for line, below in sorted(counted.items(), key=lambda entry: -entry[1].total())
        )
    )


def _location(frame: Frame, sources: Sources) -> Location:
    return Location(frame.file, frame.line, frame.function, sources.text(frame.file, frame.line))
