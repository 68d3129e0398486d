"""Tells how many of torch's datasets each item passes through, one around the other: NestedDatasets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median_low

from perfdoctor.facts.data.batch_stages import FETCH, FEW, prepares, too_few
from perfdoctor.facts.host.stacks import NO_STACKS, threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.wrapped_again import wrapping_lines
from perfdoctor.model.batch import WAITED_FOR
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords

DATASETS = re.compile(r"torch[/\\]utils[/\\]data[/\\]dataset\.py$")
# Those that look an item up in another dataset; before Python 3.11 a function tells no class.
LOOKS_UP = re.compile(r"^(?:(?:Subset|ConcatDataset)\.)?__getitems?__$")
LISTED = "<listcomp>"  # in Subset.__getitems__, where comprehensions have frames
DEEP = 4  # a split of a split, and parts put together: what scripts do once, before training


@dataclass(frozen=True)
class NestedDatasets:
    """Datasets wrapped in datasets, in samples of batches being prepared."""

    typical: int  # wrappers that a sample is in, of those that are in any: a look-up is seen half-way down
    deepest: int
    is_cut: bool  # of the deepest, only the innermost frames are known
    share: float  # of the cost of a batch: the wrappers' own time
    samples: int  # of that time
    at: tuple[Location, ...]  # lines that wrap again and again; else where the loader is made


@fact
def nested_datasets(
    rank: RankRecords, step: StepFacts, loader: LoaderFacts, sources: Sources
) -> NestedDatasets | Missing | None:
    """What wrappers take of a batch, or None where items pass through few."""
    if not rank.stacks:
        return NO_STACKS
    total = own = 0
    depths: Counter[tuple[int, bool]] = Counter()
    for inner, is_cut, count in _prepared(rank, loader):
        total += count
        depth = sum(1 for frame in inner if _looks_up(frame))
        if depth:
            depths[depth, is_cut] += count
            own += count * _is_own(inner[-1])
    if total < FEW:
        return too_few(total, step.data_stall >= WAITED_FOR)
    typical = median_low([depth for depth, _ in depths.elements()] or [0])
    if typical <= DEEP:
        return None
    deepest, is_cut = max(depths)
    at = wrapping_lines(sources, _files(rank, loader)) or ((loader.at,) if loader.at else ())
    return NestedDatasets(typical, deepest, is_cut, own / total, own, at)


def _prepared(rank: RankRecords, loader: LoaderFacts) -> Iterator[tuple[Sequence[Frame], bool, int]]:
    """Stacks from the loader's fetch on inwards, and whether the outermost frames are missing.

    Samplers keep so many frames of a stack, and deep ones may be read while they change: such a stack begins
    inside a wrapper.
    """
    for thread, frames, count in threads(rank):
        if not frames or not prepares(thread, bool(loader.num_workers)):
            continue
        fetches = [index for index, frame in enumerate(frames) if FETCH.search(frame.file)]
        is_cut = not fetches and bool(DATASETS.search(frames[0].file))
        if fetches or is_cut:
            yield frames[fetches[-1] + 1 :] if fetches else frames, is_cut, count


def _looks_up(frame: Frame) -> bool:
    return bool(DATASETS.search(frame.file) and LOOKS_UP.search(frame.function))


def _is_own(innermost: Frame) -> bool:
    """Whether a wrapper is at work itself, not the dataset inside it."""
    return _looks_up(innermost) or (innermost.name == LISTED and bool(DATASETS.search(innermost.file)))


def _files(rank: RankRecords, loader: LoaderFacts) -> Iterator[str]:
    """The user's files that samples passed through, and the one that makes the loader."""
    if loader.at is not None:
        yield loader.at.file
    for _, frames, _ in threads(rank):
        yield from (frame.file for frame in frames if frame.owner is Owner.USER)
