"""The same items are read and decoded again in every epoch, although they would fit into memory.

## What it sees
The step waits for batches, the loader has prepared more samples than the dataset holds, reading and decoding
are a large part of a batch's cost, and the decoded dataset fits into free memory.

## By hand
    class Data(Dataset):
        def __init__(self, paths):
            self.items = [decode(path) for path in paths]   # once, before workers start: they share it

        def __getitem__(self, index):
            return augment(self.items[index])               # keep random augmentation outside the cache

Where that takes too long at the start: a tensor in shared memory (`torch.empty(...).share_memory_()`) that is
filled as items are first read, or a decoded copy on a local disk (`np.memmap`).

## When not
Training for a single epoch reads everything once. A cache inside each worker helps less: in the next epoch
another worker may need the item. Items that are partly random cannot be cached as a whole; those that never
change can: see `repeated-items`.
"""

from __future__ import annotations

import re

from perfdoctor.facts.data.item_repeats import ItemRepeatFacts
from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, MemoryFacts, RunFacts, StepFacts
from perfdoctor.tips._cached import AGAIN, fits, room, seen_again
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.30  # of a batch's cost that a cache would take away
CACHED = (Stage.READING, Stage.FETCHING, Stage.DECODING)
# Of reading and decoding that a cache removes: a lookup and a copy are left, and it may be cold for longer.
REMOVED = (0.6, 0.9, 0.98)
# Lines of items that differ each time, where none was prepared twice in a look at them.
DRAWS = re.compile(r"rand|augment|jitter", re.IGNORECASE)


@tip(
    title="Cache decoded items in memory between epochs",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def repeated_decoding(
    run: RunFacts,
    step: StepFacts,
    loader: LoaderFacts,
    batch: BatchFacts,
    repeats: ItemRepeatFacts,
    memory: MemoryFacts,
) -> Advice | None:
    """Names the line that reads or decodes, where it handles the same items again."""
    # what the batch holds is an item as it is after the transform: the decoded one can be larger or smaller
    passes, size_bytes, free_bytes = loader.passes, loader.items_bytes, memory.available_bytes
    if passes is None or size_bytes is None or free_bytes is None:
        return None
    share = sum(batch.share(stage) for stage in CACHED)
    if step.data_stall < NOTICEABLE or share < LARGE or passes < AGAIN:
        return None
    if not fits(run, size_bytes, free_bytes):
        return None
    low, likely, high = (
        min(1.0, share) * again * removed
        for again, removed in zip(seen_again(passes, loader.num_workers), REMOVED, strict=True)
    )
    lines = sorted((line for stage in CACHED for line in batch.lines(stage)), key=lambda line: -line.share)
    return Advice(
        because=(
            waits(step),
            f"reading and decoding take {min(1.0, share):.0%} of a batch's cost",
            f"each item was read {passes:.1f} times",
            room(run, loader.all_items, size_bytes, free_bytes, " in batches"),
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(line.at for line in lines[:3]),
        tweak=None
        if loader.iterable or loader.items_in_all or _differ(repeats, batch)
        else "--cache-dataset",
        code="self.items = [self.read(index) for index in range(len(self))]  # before the workers start; "
        "augment in __getitem__",
    )


def _differ(repeats: ItemRepeatFacts, batch: BatchFacts) -> bool:
    """Whether items differ each time: the tweak caches whole items only."""
    if repeats.again:
        return repeats.differ
    return any(DRAWS.search(line.at.statement or "") for line in batch.lines(Stage.TRANSFORMING))
