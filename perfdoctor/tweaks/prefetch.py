"""Let each worker prepare N batches ahead.

## What changes
`prefetch_factor` of each `DataLoader` that has workers, `--workers` included: how many batches each of them
has on its way. More of them even out batches that take unequally long, and cost host memory, in shared memory
for tensors.

## Left alone
- A loader without workers: nothing is prepared ahead.
- A loader that prepares as many ahead already.

## Same result
Bit for bit, unless the script's own sampler draws from the same random numbers as the training: it runs ahead
too.
"""

from __future__ import annotations

from ..probe.tweak import BITWISE, Count, Tweaking, tweak
from ._loaders import set_each


@tweak("--prefetch", BITWISE, Count(1, 1024))
def prefetch(here: Tweaking, count: int) -> None:
    """Let the workers of every DataLoader prepare `count` batches ahead, each."""
    set_each(
        here,
        "prefetch_factor",
        count,
        lambda loader: None if loader.num_workers else "it has no workers that could prepare batches ahead",
    )
