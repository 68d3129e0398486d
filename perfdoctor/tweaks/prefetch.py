"""Let each worker prefetch N batches.

## What changes
`prefetch_factor` of each `DataLoader` that has workers, `--workers` included: how many batches each worker
prepares ahead. More of them even out batches of uneven cost, and take host memory, for tensors in /dev/shm.

## Left alone
- A loader without workers: nothing is prepared ahead.
- A loader that already prefetches as many.

## Same result
Bit for bit, unless the script's own sampler draws from the same random numbers as the training: it runs
ahead, too.
"""

from __future__ import annotations

from typing import Any

from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import BITWISE, Count, Tweaking, WatchedRun, tweak
from ._loaders import CALLS, predicted, set_each


def predict(run: WatchedRun, depth: int) -> Any:
    """That many batches ahead in the model of the step, where there are workers."""

    def change(loader: Any) -> Any:
        asked = run.value("--workers")
        workers = loader.num_workers if asked is None else asked
        return run.changes(prefetch=depth) if workers else run.changes()

    return predicted(run, change)


@tweak(
    "--prefetch",
    BITWISE,
    Count(1, 1024),
    predict=predict,
    acts_on=("data",),
    loader_argument="prefetch_factor",
    edits=[Argument(*CALLS, name="prefetch_factor", trainer="dataloader_prefetch_factor")],
)
def prefetch(here: Tweaking, count: int) -> None:
    """Let each worker of every DataLoader prefetch `count` batches."""
    set_each(
        here,
        "prefetch_factor",
        count,
        lambda loader: None if loader.num_workers else "it has no workers to prefetch batches",
    )
