"""Keep worker processes alive between epochs.

## What changes
`persistent_workers` of each `DataLoader` that has workers, `--workers` included. They are started once
instead of at the beginning of each epoch; in between they keep their memory, those of a validation loader
too.

## Left alone
- A loader without workers.
- A loader whose workers already persist.
- A loader that the script goes over twice at the same time, as in `zip(loader, loader)`, from then on: both
  would share one epoch.

## Same result
Bit for bit, unless the dataset draws random numbers in workers, which are then not seeded again in each
epoch (this is detected: losses that differ no more than other random numbers would make them do not count as
a changed result), or the script changes the dataset between epochs: workers keep the copy that they started
with.
Starting workers draws one number from the generator that shuffles; a trial still draws it, so that losses can
be compared. Set by hand, later epochs come in another order, as random as before.
"""

from __future__ import annotations

from typing import Any

from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import BITWISE, EPOCH_BORDERS, Tweaking, WatchedRun, tweak
from ._draws import UNSEEDED, notice_draws
from ._loaders import CALLS, keeping_epochs, predicted, set_each


def predict(run: WatchedRun) -> Any:
    """The waits for workers that start again go, and what their start slows down."""

    def change(loader: Any) -> Any:
        if not loader.num_workers:  # those of validation alone
            return run.changes(others=run.restarts)
        return run.changes(starts=run.restarts, step=run.slowed)

    return predicted(run, change)


@tweak(
    "--persistent-workers",
    BITWISE,
    predict=predict,
    acts_on=("data",),
    pays=EPOCH_BORDERS,
    edits=[Argument(*CALLS, name="persistent_workers", trainer="dataloader_persistent_workers")],
)
def persistent_workers(here: Tweaking) -> None:
    """Let the workers of every DataLoader persist."""
    set_each(
        here,
        "persistent_workers",
        True,
        lambda loader: None if loader.num_workers else "it has no workers",
        keeping_epochs(here),
    )
    notice_draws(here, UNSEEDED, only_workers=True)
