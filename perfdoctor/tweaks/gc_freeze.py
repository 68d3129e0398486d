"""Freeze objects created before training, so that garbage collections skip them.

## What changes
After the third update, when models, datasets and the state of optimizers exist, everything that is garbage is
collected and the rest is frozen (`gc.freeze()`). Later collections, including the script's own
`gc.collect()`, visit only objects created since.

## Left alone
- A script that has frozen its objects itself.
- Collections themselves: they run as often as before, and reference cycles created while training are freed.

Frozen objects are never collected, even if they become garbage through a reference cycle.

## Same result
Bit for bit: the collector does not change any number of the training.
"""

from __future__ import annotations

import gc
from typing import Any

from ..probe import patch
from ..probe.trial.tweak import BITWISE, Tweaking, tweak

UPDATES = 3  # optimizers make their state in the first; a second shows that the loop is under way


@tweak("--gc-freeze", BITWISE, waits=UPDATES)
def gc_freeze(here: Tweaking) -> None:
    """Freeze existing objects once training is under way."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    updates = 0

    def after_update(optimizer: Any) -> None:
        nonlocal updates
        updates += 1
        if updates == UPDATES:
            _freeze(here)

    register_optimizer_step_post_hook(patch.optimizer_hook(here.name, after_update))


def _freeze(here: Tweaking) -> None:
    """Collect, so that no garbage stays for good, and freeze."""
    frozen = gc.get_freeze_count()
    if frozen:
        here.left_alone("gc.freeze", f"{frozen} objects are already frozen")
        return
    gc.collect()
    gc.freeze()
    here.applied("objects that each full collection visits", gc.get_freeze_count(), 0)
