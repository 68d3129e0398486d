"""A function's cache forgets its results before they are asked for again.

## What it sees
A `functools.lru_cache` of yours is full, has some results when they are asked for, and makes many others
anew; what runs below the function takes a noticeable share of the step. The results that it has show that
arguments come again. In shuffled epochs they are few, as most come again only after they were dropped.

## By hand
    @functools.lru_cache(maxsize=None)                    # or a number above that of different arguments
    def load(path):
        ...

Each worker process of a DataLoader has a cache of its own, which is gone where workers start anew in every
epoch: keep them with `persistent_workers=True`.

## When not
Where all results together take more memory than there is. Arguments that never come again, as random ones,
gain nothing by any size.
"""

from __future__ import annotations

from perfdoctor.facts.script.function_caches import SmallCache, SmallCacheFacts
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SEEN = 5  # samples below the function: fewer may be chance
SURE, LIKELY = 0.5, 0.9  # of it goes: each result has to be made once, and a few may never come again


@tip(
    title="Let the cache hold all results that are asked for again",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=("batches-built-in-the-loop", "slow-dataset-code", "repeated-decoding", "costly-line"),
)
def small_cache(small: SmallCacheFacts) -> Advice | None:
    """Advises a larger cache where making results again takes a noticeable share of the step."""
    caches = [each for each in small.caches if each.share >= NOTICEABLE and each.samples >= SEEN]
    if not caches:
        return None
    of_batch = min(1.0, sum(each.of_batch for each in caches))
    of_step = min(1.0, sum(each.share for each in caches if not each.of_batch))
    return Advice(
        because=tuple(said for each in caches for said in _said(each)),
        change=Change(step=_gone(of_step), batch=_gone(of_batch)),
        at=tuple(each.at for each in caches),
        bottleneck=caches[0].bottleneck,
        code="@functools.lru_cache(maxsize=None)  # all results have to fit into memory",
    )


def _gone(share: float) -> Estimate:
    return Estimate(SURE * share, LIKELY * share, share)


def _said(cache: SmallCache) -> tuple[str, str]:
    held, there = f"holds {cache.maxsize:,} results", cache.calls - cache.misses
    return (
        f"the cache of `{cache.at.function}` {held}; of {cache.calls:,} asked for, it had {there:,}",
        f"making the others takes {cache.share:.0%} of the step",
    )
