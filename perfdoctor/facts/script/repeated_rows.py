"""Finds modules that are given the same row several times in one batch: RepeatedRowFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.looked_at import LookedAt, LookedAtLine, looked_at
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.repeating import repeating_line
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.repeated_rows import RepeatedRowsEvent, RepeatedRowsLookEvent

NO_VALUES = "the rows that modules are given are compared only where training runs on the CPU"


@dataclass(frozen=True)
class RepeatedRowsLine:
    """A line that gives one module the same rows again; counts are those of a step."""

    at: Location
    repeated_at: Location | None  # where rows are repeated, if the file shows it
    module: str
    share: float  # of a sampled step, with backward; the median
    rows: int
    distinct: int  # of these
    times: int  # that each row comes; 0: not each as often
    together: bool  # equal rows lie next to each other
    by_chance: bool  # what is returned for equal rows differs, as dropout makes it
    normalised: bool  # a batch normalisation inside counts the rows
    operations: int  # in forward
    weight_bytes: int  # read by all calls


@dataclass(frozen=True)
class RepeatedRowFacts:
    """What modules take that are given rows several times."""

    share: Estimate  # of a sampled step, backward included: the least, the median and the largest
    repeated: float  # the part of it that goes with rows that were there before
    lines: tuple[RepeatedRowsLine, ...]  # costliest first
    samples: int  # steps


@fact
def repeated_row_facts(
    rank: RankRecords, step: StepFacts, sources: Sources
) -> RepeatedRowFacts | Missing | None:
    """The repeated rows of the sampled steps, or None with too few of them to tell."""
    told = (event for event in rank.of(RepeatedRowsEvent) if 0 < event.distinct < event.rows)
    seen = looked_at(rank.of(RepeatedRowsLookEvent), told, rank, step, sources)
    if not isinstance(seen, LookedAt):
        return Missing(NO_VALUES) if isinstance(seen, Missing) else seen
    shares = [look for look in seen.looks if look.seconds > 0]
    return RepeatedRowFacts(
        share=seen.share,
        repeated=min(1.0, max(0.0, median(look.repeated for look in shares))) if shares else 0.0,
        lines=tuple(_line(line, sources) for line in seen.lines if line.share > 0),
        samples=len(seen.looks),
    )


def _line(line: LookedAtLine[RepeatedRowsEvent], sources: Sources) -> RepeatedRowsLine:
    last = line.events[-1]
    return RepeatedRowsLine(
        at=line.at,
        repeated_at=repeating_line(sources, line.at),
        module=last.module or "module",
        share=line.share,
        rows=last.rows,
        distinct=last.distinct,
        times=last.times,
        together=last.together,
        by_chance=last.by_chance,
        normalised=last.normalised,
        operations=last.operations,
        weight_bytes=last.weight_bytes,
    )
