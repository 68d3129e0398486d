"""Let cuDNN benchmark its algorithms and choose the fastest for each convolution.

## What changes
`torch.backends.cudnn.benchmark = True`, once a model with convolutions on a CUDA device is called. The first
call with a new shape is slower, because cuDNN times its algorithms then.

## Left alone
- Models without convolutions, and models on other devices.
- A script that already has it on, or that requires deterministic algorithms.

## Same result
Within rounding: another algorithm adds in another order, and the choice can differ from run to run.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..probe.trial.by_hand import Statement
from ..probe.trial.tweak import COMPILED, ROUNDING, Tweaking, tweak
from ..probe.wrapping import Args, Kwargs
from ._modules import name_of, on_root_calls

SETTING = "torch.backends.cudnn.benchmark"


@tweak("--cudnn-benchmark", ROUNDING, first_epoch=True, pays=COMPILED, edits=[Statement(f"{SETTING} = True")])
def cudnn_benchmark(here: Tweaking) -> None:
    """Turn on cuDNN's benchmark mode for the first model that has a use for it."""
    torch = here.torch
    cudnn = torch.backends.cudnn
    seen: weakref.WeakSet[Any] = weakref.WeakSet()
    settled = False

    def before(module: Any, args: Args, kwargs: Kwargs) -> None:
        nonlocal settled
        if settled or module in seen:
            return
        seen.add(module)
        if not any(isinstance(part, torch.nn.modules.conv._ConvNd) for part in module.modules()):
            here.left_alone(name_of(module), "it has no convolution")
        elif next(module.parameters()).device.type != "cuda":
            here.left_alone(name_of(module), "cuDNN runs on CUDA devices only")
        else:
            settled = True
            settle()

    def settle() -> None:
        if cudnn.benchmark:
            here.left_alone(SETTING, "it is already on")
        elif cudnn.deterministic or torch.are_deterministic_algorithms_enabled():
            here.left_alone(SETTING, "the script requires deterministic algorithms")
        else:
            cudnn.benchmark = True
            here.applied(SETTING, False, True)

    on_root_calls(here, before)
