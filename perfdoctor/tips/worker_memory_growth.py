"""The workers' private memory keeps growing.

## What it sees
The private memory of the workers still grows in the second half of the run. Often these are pages shared with
the training process that each worker copies when it touches the reference counts of Python objects in them.

## By hand
Keep the data of all items in arrays or tensors, not in lists and dictionaries of Python objects:

    self.paths = np.array(paths)                       # one object instead of a million
    self.boxes = torch.tensor(boxes)                   # with offsets, where items differ in length

Bound caches (`functools.lru_cache(maxsize=...)`).

## When not
Growth that ends once every item was touched is harmless if there is enough memory.
"""

from __future__ import annotations

from perfdoctor.facts.data.worker_memory import WorkerMemory
from perfdoctor.model.change import Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, MemoryFacts
from perfdoctor.tips.catalogue import tip

LONG_S = 30.0  # of readings: allocators settle within seconds
GREW = 0.2  # of what it was at first
GREW_BYTES = 64e6  # and this much in all: less is no risk on any machine that trains
STILL = 0.5  # of the mean rate in the second half: growth that flattens out ends by itself
HOUR_S = 3600.0


@tip(
    title="Keep the dataset's items in arrays, so that workers share them",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    saves=("memory",),
)
def worker_memory_growth(loader: LoaderFacts, growth: WorkerMemory, memory: MemoryFacts) -> Advice | None:
    """Says how much the workers grew, and when memory runs out. A risk: no gain in time is predicted."""
    increase = growth.last_bytes - growth.first_bytes
    if growth.seconds < LONG_S or increase < max(GREW_BYTES, GREW * growth.first_bytes):
        return None
    if growth.late_bytes_per_s < STILL * increase / growth.seconds:
        return None
    ends = ""
    stay = loader.persistent_workers or loader.epochs <= 1
    if memory.available_bytes is not None and stay:
        ends = f": {memory.available_bytes / 1e9:.3g} GB are free, enough for "
        ends += f"{memory.available_bytes / growth.late_bytes_per_s / HOUR_S:.2g} hours at this rate"
    elif not stay:
        ends = ", until the workers of the epoch end"
    who = f"{growth.workers} workers" if growth.workers > 1 else "the worker"
    return Advice(
        because=(
            f"the memory of {who} grew by {increase / 1e6:.0f} MB in {growth.seconds:.0f} s",
            f"it was {growth.first_bytes / 1e6:.0f} MB at first",
            f"it still grows by {growth.late_bytes_per_s / 1e6:.2g} MB/s{ends}",
            f"the dataset is {loader.dataset}",
        ),
        change=None,
        at=(loader.at,) if loader.at else (),
    )
