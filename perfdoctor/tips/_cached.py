"""What a cache of prepared items is worth: shared by the tips that advise one."""

from __future__ import annotations

from perfdoctor.model.measured import RunFacts
from perfdoctor.model.units import size

AGAIN = 1.5  # samples prepared over items of the dataset: below it, most were prepared once
OF_FREE = 0.5  # of the memory that was free: the rest belongs to what the run still grows by


def seen_again(passes: float, workers: int) -> tuple[float, float, float]:
    """The share of batches whose items were prepared before: low, likely, high.

    Low: by the same worker, since the tweak gives each worker a cache of its own. High: by anybody, since the
    workers share what was prepared before they start. Likely: between the two.
    """
    alone, shared = _seen_by_its_worker(passes, workers), 1.0 - 1.0 / passes
    return alone, (alone + shared) / 2, shared


def fits(run: RunFacts, size_bytes: float, free_bytes: float) -> bool:
    """Whether there is memory for all items, which each rank on the machine keeps for itself."""
    return size_bytes * run.ranks <= OF_FREE * free_bytes


def room(run: RunFacts, items: int | None, size_bytes: float, free_bytes: float, kept: str = "") -> str:
    """The sentence about it; `kept`: in which form."""
    each = f", in each of {run.ranks} ranks" if run.ranks > 1 else ""
    return f"{items or 0:,} items take {size(size_bytes)}{kept}{each}; {size(free_bytes)} are free"


def _seen_by_its_worker(passes: float, workers: int) -> float:
    """The share of batches whose items the same worker has read before, if each worker keeps its own."""
    if workers <= 1:
        return 1.0 - 1.0 / passes
    elsewhere = 1.0 - 1.0 / workers  # how likely an item went to another worker, in each pass
    count = int(passes)
    return 1.0 - sum(elsewhere**before for before in range(count)) / count
