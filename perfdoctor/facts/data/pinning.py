"""Measures the one thread through which all workers' batches pass where memory is pinned: PinningFacts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from perfdoctor.facts.data.batch_stages import hands_over, pins
from perfdoctor.facts.data.training_loader import made_loaders, rows_of, trained_on
from perfdoctor.facts.host.sampled_shares import SURELY
from perfdoctor.facts.host.stacks import FEW, threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts
from perfdoctor.runs.types import RankRecords

# A worker is asked for each tensor's memory, and answers when its own Python lets it: the wait is its doing.
ASKING = re.compile(r"[/\\]multiprocessing[/\\](?:connection|reduction|resource_sharer)\.py$")


@dataclass(frozen=True)
class PinningFacts:
    """How busy the thread is that takes batches out of the workers' queue and pins them."""

    # Share of the training thread's time in which it is at work for the training loader, however quick the
    # workers are: at best, likely, at worst, as far as so many samples tell.
    busy: tuple[float, float, float]


@fact
def pinning_facts(rank: RankRecords, loader: LoaderFacts, span: MeasuredSpan) -> PinningFacts | None:
    """What stack samples saw of that thread, or None where there is none, or where too few tell."""
    if not loader.num_workers or not loader.pin_memory:
        return None
    main = busy = 0
    for thread, frames, count in threads(rank):
        if thread == "main":
            main += count
        elif pins(frames) and hands_over(frames) and not _asks(frames):
            busy += count
    if main < FEW:
        return None
    of_training = _of_training(rank, span)
    off = SURELY * math.sqrt(busy)
    best, likely, worst = (
        min(1.0, of_training * max(0.0, samples) / main) for samples in (busy - off, busy, busy + off)
    )
    return PinningFacts((best, likely, worst))


def _asks(frames: Sequence[Frame]) -> bool:
    """Whether the thread speaks with a worker."""
    return any(ASKING.search(frame.file) for frame in frames)


def _of_training(rank: RankRecords, span: MeasuredSpan) -> float:
    """The training loader's share of all bytes that are pinned: other loaders' threads have the same name."""
    pinned = [event.id for event in made_loaders(rank) if event.pin_memory and event.num_workers]
    rows = rows_of(rank.loader, pinned, span)
    of_all = 0 if rows is None else int(rows["bytes"].sum())
    of_training = rows_of(rank.loader, trained_on(rank, span) & set(pinned), span)
    return int(of_training["bytes"].sum()) / of_all if of_all and of_training is not None else 1.0
