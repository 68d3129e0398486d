"""Shared memory is nearly full of batches: the next larger one may end a worker with a bus error.

## What it sees
What workers hold ready (workers times prefetched batches times their size), or what samples saw in use, comes
near the size of /dev/shm.

## By hand
    docker run --shm-size=8g ...        # a container has 64 MB if nothing is said
    DataLoader(..., num_workers=2, prefetch_factor=2)   # fewer batches at a time

## When not
`torch.multiprocessing.set_sharing_strategy` does not help: both strategies live in shared memory.
"""

from __future__ import annotations

from perfdoctor.catalogue import tip
from perfdoctor.change import Effort
from perfdoctor.model import Advice, Bottleneck, LoaderFacts, MemoryFacts

NEARLY = 0.8  # of /dev/shm: batches differ in size, and a quarter more would fill it
OURS = 0.1  # of /dev/shm by this loader: below it, somebody else fills it


@tip(
    title="Give the workers more shared memory, or fewer batches to hold",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    saves=("memory",),
)
def shared_memory_nearly_full(loader: LoaderFacts, memory: MemoryFacts) -> Advice | None:
    """What is in shared memory against its size. A risk: no time is promised."""
    if not loader.num_workers or not loader.batch_bytes or not memory.shm_bytes:
        return None
    ready = loader.num_workers * (loader.prefetch_factor or 2)
    held = ready * loader.batch_bytes / memory.shm_bytes
    used = 1.0 - memory.shm_free_bytes / memory.shm_bytes if memory.shm_free_bytes is not None else 0.0
    if held < OURS or max(held, used) < NEARLY:
        return None
    mb = 1e6
    return Advice(
        because=(
            f"{loader.num_workers} workers hold up to {ready} batches of {loader.batch_bytes / mb:.3g} MB",
            f"/dev/shm has {memory.shm_bytes / mb:.3g} MB, of which {min(1.0, used):.0%} were seen in use",
            "when it is full, a worker dies of a bus error",
        ),
        change=None,
        at=(loader.at,) if loader.at else (),
    )
