"""Tells what each loader worker does for samples that it leaves to others: LateShardingFacts."""

from __future__ import annotations

from functools import cache

from perfdoctor.facts.data.batch_stages import FEW, prepared, too_few
from perfdoctor.facts.host.stacks import NO_STACKS
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.worker_shares import SharingLoop, sharing_loops
from perfdoctor.model.batch import WAITED_FOR
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords


@dataclass(frozen=True)
class LateShardingFacts:
    """What workers do for samples that they then leave to each other."""

    at: Location  # where all samples are gone through
    filter: Location  # where a worker tells its own; the same line where one call does both
    share: float  # of the cost of a batch, inside this loop and before that
    samples: int
    workers: int


@fact
def late_sharding_facts(
    rank: RankRecords, step: StepFacts, loader: LoaderFacts, sources: Sources
) -> LateShardingFacts | Missing | None:
    """The costliest such loop of an iterable dataset with workers, or None where there is none."""
    if not loader.iterable or loader.num_workers < 2:
        return None
    if not rank.stacks:
        return NO_STACKS
    seen: dict[tuple[str, SharingLoop], int] = {}
    total, loops = 0, cache(lambda file: sharing_loops(sources.file(file)))
    for inner, count in prepared(rank, loader, sources):
        total += count
        passed = (
            (frame.file, loop)
            for frame in inner
            if frame.owner is Owner.USER
            for loop in loops(frame.file)
            if loop.first <= frame.line <= loop.last or frame.name in loop.makers
        )
        outermost = next(passed, None)
        if outermost is not None:
            seen[outermost] = seen.get(outermost, 0) + count
    if total < FEW:
        return too_few(total, step.data_stall >= WAITED_FOR)
    if not seen:
        return None
    (file, loop), samples = max(seen.items(), key=lambda one: one[1])
    first, last = (sources.at(file, line) for line in (loop.first, loop.filter))
    return LateShardingFacts(first, last, samples / total, samples, loader.num_workers)
