"""Keep the garbage collector from looking again at what was there before training.

## What changes
After the third update, when models, datasets and the state of optimizers exist, everything that is garbage
is collected and the rest is frozen (`gc.freeze()`). Later collections, and those that the script asks for
by `gc.collect()`, look only at objects made since.

## Left alone
- A script that has frozen its objects itself.
- Collections themselves: they come as often as before, and reference cycles made while training are freed.

What is frozen is never collected, even if it becomes garbage by a reference cycle.

## Same result
Bit for bit: no number of the training depends on the collector.
"""

from __future__ import annotations

import gc
from typing import Any

from ..probe import patch
from ..probe.tweak import BITWISE, Tweaking, tweak

UPDATES = 3  # optimizers make their state in the first; a second shows that the loop is under way


@tweak("--gc-freeze", BITWISE)
def gc_freeze(here: Tweaking) -> None:
    """Freeze what is there once training is under way."""
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
        here.left_alone("gc.freeze", f"{frozen} objects are frozen already")
        return
    gc.collect()
    gc.freeze()
    here.applied("objects that each full collection looks at", gc.get_freeze_count(), 0)
