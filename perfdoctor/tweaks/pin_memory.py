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

from ..probe.trial.tweak import BITWISE, Tweaking, tweak
from ._loaders import set_each


@tweak("--pin-memory", BITWISE)
def pin_memory(here: Tweaking) -> None:
    """Let every DataLoader pin its batches."""

    def reason(loader: Any) -> Optional[str]:
        return (
            None
            if _device(here.torch) not in (None, "mps")
            else "there is no device to copy to from pinned memory"
        )

    set_each(here, "pin_memory", True, reason)


def _device(torch: Any) -> Optional[str]:
    """The kind of device that this process can use, or None."""
    accelerator = getattr(torch, "accelerator", None)  # torch 2.6 and newer
    if accelerator is None:
        return "cuda" if torch.cuda.is_available() else None
    return str(accelerator.current_accelerator().type) if accelerator.is_available() else None
