"""Keep workers from one epoch to the next.

## What changes
`persistent_workers` of each `DataLoader` that has workers, `--workers` included. They are started once, and
not at the beginning of each epoch; in between they hold their memory, those of a validation loader too.

## Left alone
- A loader without workers.
- A loader whose workers persist already.

## Same result
Bit for bit, unless the dataset draws random numbers in workers, which are then not seeded anew each epoch, or
keeps what the script sets in it between epochs: workers have the copy that they started with. Starting
workers draws one number from the generator that shuffles; a trial goes on drawing it, so that losses can be
compared. Set by hand, later epochs come in another order, as random as before.
"""

from __future__ import annotations

from ..probe.tweak import BITWISE, Tweaking, tweak
from ._loaders import keeping_shuffles, set_each


@tweak("--persistent-workers", BITWISE)
def persistent_workers(here: Tweaking) -> None:
    """Let the workers of every DataLoader persist."""
    set_each(
        here,
        "persistent_workers",
        True,
        lambda loader: None if loader.num_workers else "it has no workers",
        keeping_shuffles(here),
    )
