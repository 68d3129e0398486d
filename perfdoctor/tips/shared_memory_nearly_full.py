"""Shared memory is nearly full of batches: a larger one may kill a worker with a bus error.

## What it sees
The batches that workers hold ready (workers times prefetched batches times their size), or the sampled use of
shared memory, come close to the size of /dev/shm.

## By hand
    docker run --shm-size=8g ...        # a container has 64 MB by default
    DataLoader(..., num_workers=2, prefetch_factor=2)   # fewer batches at a time

## When not
`torch.multiprocessing.set_sharing_strategy` does not help: both strategies use shared memory.
"""

from __future__ import annotations

from perfdoctor.model.change import Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, MemoryFacts
from perfdoctor.tips.catalogue import tip

NEARLY = 0.8  # of /dev/shm: batches differ in size, and a quarter more would fill it
OURS = 0.1  # of /dev/shm by this loader: below it, another process fills it


@tip(
    title="Increase shared memory, or prefetch fewer batches",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    saves=("memory",),
)
def shared_memory_nearly_full(loader: LoaderFacts, memory: MemoryFacts) -> Advice | None:
    """Compares what shared memory holds with its size. A risk: no gain in time is predicted."""
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
            f"/dev/shm has {memory.shm_bytes / mb:.3g} MB, of which {min(1.0, used):.0%} were in use",
            "when it is full, a worker dies with a bus error",
        ),
        change=None,
        at=(loader.at,) if loader.at else (),
    )
