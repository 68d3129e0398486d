"""Synchronise gradients as 16-bit numbers.

## What changes
Each `DistributedDataParallel` gets torch's own hook that converts gradients to bfloat16 or float16 before
they are averaged, and back afterwards: half the bytes go over the network.

## Left alone
- A model with its own hook, or whose optimizer runs inside backward: torch allows one hook. Ours is
  registered just before the first pass; a script that registers one after that stops with torch's error.
- `bf16` where torch's hook refuses it: it needs NCCL 2.10 or XCCL.
- A model whose parameters are 16-bit numbers, and a single process.

## Same result
Within rounding, of the shorter numbers: bfloat16 keeps 8 bits of each gradient, float16 keeps 11. In float16,
gradients beyond 65504 become infinite, and those below 3e-8 become 0.
"""

from __future__ import annotations

from typing import Any

from ..probe.trial.tweak import ROUNDING, OneOf, Tweaking, tweak
from ._ddp import alone, at_first_pass, hook_of

SHORT_BYTES = 2


@tweak("--ddp-compress", ROUNDING, OneOf("bf16", "fp16"))
def ddp_compress(here: Tweaking, kind: str) -> None:
    """Register torch's hook for `kind` with every DistributedDataParallel."""
    what = "DistributedDataParallel gradients"

    def compress(model: Any, at: Any) -> None:
        own = hook_of(model)
        if own:
            here.left_alone(what, f"the script synchronises them with {own}", at)
        elif alone(model):
            here.left_alone(what, "there is only one process", at)
        elif all(p.element_size() <= SHORT_BYTES for p in model.parameters() if p.requires_grad):
            here.left_alone(what, "they are already 16-bit numbers", at)
        else:
            try:
                _register(model, kind)
            except TypeError as refused:
                here.left_alone(what, f"torch refuses: {refused}", at)
            else:
                here.applied(what, "as they are", kind, at)

    at_first_pass(here, compress)


def _register(model: Any, kind: str) -> None:
    """Raises TypeError where the hook does not work here."""
    import torch.distributed as distributed
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    hook = getattr(default_hooks, f"{kind}_compress_hook")
    # The default group by None: a model that keeps a group in its hook can no longer be pickled.
    group = None if model.process_group is distributed.group.WORLD else model.process_group
    model.register_comm_hook(group, hook)
