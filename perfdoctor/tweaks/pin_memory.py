"""Copy batches into pinned (page-locked) memory.

## What changes
`pin_memory` of each `DataLoader`: a thread of the training process, or without workers the loader itself,
copies each batch into memory from which a device reads faster, and without blocking Python where the script
copies with `non_blocking=True` (`--non-blocking`). The dataset must return tensors in host memory: torch
cannot pin others, and reports an error.

## Left alone
- Every loader where there is no device to copy to, or one whose batches torch does not pin (mps).
- A loader that already pins its batches.

## Same result
Bit for bit.
"""

from __future__ import annotations

from typing import Any, Optional

from ..probe.accelerators import MPS, available
from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import BITWISE, Tweaking, tweak
from ._loaders import CALLS, set_each


@tweak(
    "--pin-memory",
    BITWISE,
    edits=[Argument(*CALLS, name="pin_memory", place=7, trainer="dataloader_pin_memory")],
)
def pin_memory(here: Tweaking) -> None:
    """Let every DataLoader pin its batches."""

    def reason(loader: Any) -> Optional[str]:
        device = available(here.torch)
        if device is None or device.kind == MPS:
            return "there is no device to copy to from pinned memory"
        return None

    set_each(here, "pin_memory", True, reason)
