"""Set gradients to None instead of zero.

## What changes
`optimizer.zero_grad(set_to_none=False)` and `model.zero_grad(set_to_none=False)` set gradients to None:
nothing is written, and the first backward pass writes gradients instead of adding to zeros.

## Left alone
- Calls that already set gradients to None, which is torch's default.
- A script that captures CUDA graphs: a graph writes into gradients that have to stay in place.

Gradients that a script sets to zero itself, as with `p.grad.zero_()`, are not detected.

## Same result
Bit for bit, as long as each parameter that ever had a gradient has one at every update. One that has none is
skipped, where with zeros momentum and weight decay would change it. A script that reads gradients right after
clearing them finds None.
"""

from __future__ import annotations

from typing import Any

from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import BITWISE, Tweaking, tweak


@tweak("--zero-grad-none", BITWISE, edits=[Argument("zero_grad", name="set_to_none", place=0, every=True)])
def zero_grad_none(here: Tweaking) -> None:
    """Clear gradients by setting them to None."""
    torch = here.torch
    captured = False

    def before_capture(args: Any, kwargs: Any) -> None:
        nonlocal captured
        captured = True

    def before(args: Any, kwargs: Any) -> Any:
        if args[1] if len(args) > 1 else kwargs.get("set_to_none", True):
            return None
        if captured:
            here.left_alone(
                "zero_grad", "a CUDA graph writes into its gradients, which have to stay in place"
            )
            return None
        here.applied("zero_grad set_to_none", False, True)
        return args[:1], {**kwargs, "set_to_none": True}, None

    here.alter(torch.cuda.CUDAGraph, "capture_begin", before_capture)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        here.alter(owner, "zero_grad", before)
