"""The workers' private memory keeps growing.

## What it sees
The memory that belongs to each worker alone still grows in the second half of the run. Often these are pages
shared with the training process that each worker copies as it touches the reference counts of the Python
objects in them.

## By hand
Keep what all items share in arrays or tensors, not in lists and dictionaries of Python objects:

    self.paths = np.array(paths)                       # one object instead of a million
    self.boxes = torch.tensor(boxes)                   # with offsets, where items differ in length

Bound caches (`functools.lru_cache(maxsize=...)`).

## When not
Growth that ends once every item was touched is harmless where the memory is there.
"""

from __future__ import annotations

from perfdoctor.analysis.workers import WorkerMemory
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort
from perfdoctor.model import Advice, Bottleneck, LoaderFacts, MemoryFacts

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
    """How much the workers grew, and how soon memory ends. A risk: no time is promised."""
    grew = growth.last_bytes - growth.first_bytes
    if growth.seconds < LONG_S or grew < max(GREW_BYTES, GREW * growth.first_bytes):
        return None
    if growth.late_bytes_per_s < STILL * grew / growth.seconds:
        return None
    ends = ""
    if memory.available_bytes is not None:
        ends = f": {memory.available_bytes / 1e9:.3g} GB are left, for "
        ends += f"{memory.available_bytes / growth.late_bytes_per_s / HOUR_S:.2g} hours at this rate"
    who = f"{growth.workers} workers" if growth.workers > 1 else "the worker"
    return Advice(
        because=(
            f"{who} took {grew / 1e6:.0f} MB more memory in {growth.seconds:.0f} s",
            f"they had {growth.first_bytes / 1e6:.0f} MB at first",
            f"it still grows by {growth.late_bytes_per_s / 1e6:.2g} MB a second{ends}",
            f"the dataset is {loader.dataset}",
        ),
        change=None,
        at=(loader.at,) if loader.at else (),
    )
