"""The dataset prepares the same items again in every epoch, although they would fit into memory.

## What it sees
The step waits for batches, the loader has prepared more samples than the dataset holds, and preparing them,
without collating, is a large part of a batch's cost. A few items of the dataset were compared from epoch to
epoch, by checksums of all they hold: each was the same every time. All items fit into free memory.

## By hand
    items = [dataset[index] for index in range(len(dataset))]   # once, before the loop
    loader = DataLoader(items, batch_size=32, shuffle=True)     # a list is a dataset, too

Where that takes too long in one process, prepare them through a loader:

    prepared = DataLoader(dataset, batch_size=None, num_workers=8)
    items = [copy.deepcopy(item) for item in prepared]          # a copy is no longer in shared memory

The items then cost so little that few workers, or none, are enough. Where a script makes data sets anew,
as for each client in each round of federated training, prepare the items of each once, and keep them:

    items = {client: [data[index] for index in range(len(data))] for client, data in datasets.items()}

## When not
For a single epoch, each item is prepared once anyway. If you plan to add random augmentation, keep what comes
before it: see `repeated-decoding`. A cache in each worker helps less: in the next epoch another worker may
need the item.
"""

from __future__ import annotations

from perfdoctor.facts.data.item_repeats import ItemRepeatFacts
from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, Location, MemoryFacts, RunFacts, StepFacts
from perfdoctor.tips._cached import AGAIN, fits, room, seen_again
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.30  # of a batch's cost that goes
# What is left of an item that is in memory already, in the worst case, the likely one and the best: the call
# of `dataset[index]`, and a pass over its bytes, from memory that no cache of the processor holds.
LOOKUP_S = (20e-6, 5e-6, 1e-6)
BYTES_PER_S = (1e9, 4e9, 10e9)
SHOWN = 3  # lines named
OF_ONE = """items = [dataset[index] for index in range(len(dataset))]  # once, before the loop
loader = DataLoader(items, ...)  # a list is a dataset, too"""
OF_SETS = """items[client] = [dataset[index] for index in range(len(dataset))]  # once for each data set
loader = DataLoader(items[client], ...)  # a list is a dataset, too"""


@tip(
    title="Prepare each item once: it is the same in every epoch",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=(
        "repeated-decoding",
        "slow-dataset-code",
        "slow-image-decode",
        "repeated-item-work",
        "many-small-calls",
        "oversized-reads",
    ),
)
def repeated_items(
    run: RunFacts,
    step: StepFacts,
    loader: LoaderFacts,
    batch: BatchFacts,
    repeats: ItemRepeatFacts,
    memory: MemoryFacts,
) -> Advice | None:
    """Names the costliest lines of the dataset, where its items do not change and fit into memory."""
    passes, size_bytes, free_bytes = loader.passes, loader.items_bytes, memory.available_bytes
    if step.data_stall < NOTICEABLE or not repeats.same:
        return None
    if passes is None or size_bytes is None or free_bytes is None:
        return None
    if passes < AGAIN or not fits(run, size_bytes, free_bytes):
        return None
    low, likely, high = (
        again * share
        for again, share in zip(
            seen_again(passes, loader.num_workers), _saved_shares(loader, size_bytes), strict=True
        )
    )
    if likely < LARGE:
        return None
    share, ms = 1.0 - loader.collate_s / loader.batch_s, loader.batch_s * 1e3
    return Advice(
        because=(
            waits(step),
            f"{share:.0%} of a batch's {ms:.1f} ms is preparing its items",
            f"all {repeats.again} items that were compared were the same every time",
            f"each item was prepared {passes:.1f} times; a longer training gains more",
            room(run, loader.all_items, size_bytes, free_bytes),
        ),
        change=Change(batch=Estimate(low, likely, high)),
        bottleneck=Bottleneck.NETWORK if batch.share(Stage.FETCHING) > 0.5 * share else None,
        at=tuple(_lines(batch)[:SHOWN]),
        tweak=None if loader.items_in_all else "--cache-dataset",  # which a data set made anew has not
        code=OF_SETS if loader.items_in_all else OF_ONE,
    )


def _saved_shares(loader: LoaderFacts, size_bytes: float) -> list[float]:
    """The share of a batch's cost that goes where all its items are in memory: low, likely, high."""
    if not loader.all_items or loader.batch_s <= 0:
        return [0.0, 0.0, 0.0]
    preparing_s = loader.batch_s - loader.collate_s
    per_batch = loader.samples / loader.batches
    left = [
        per_batch * (lookup_s + size_bytes / loader.all_items / rate)
        for lookup_s, rate in zip(LOOKUP_S, BYTES_PER_S, strict=True)
    ]
    return [max(0.0, preparing_s - left_s) / loader.batch_s for left_s in left]


def _lines(batch: BatchFacts) -> list[Location]:
    """The lines that prepare items, costliest first."""
    lines = [line for stage in Stage if stage is not Stage.COLLATING for line in batch.lines(stage)]
    return list(dict.fromkeys(line.at for line in sorted(lines, key=lambda line: -line.share)))
