"""Keep images and convolutions channels-last (NHWC) in memory.

## What changes
The 4-D parameters of each model with 2-D convolutions, in place before its first call or before
DistributedDataParallel wraps it; and each 4-D floating-point tensor that goes into it. Shapes, values and
parameter objects stay the same; the outputs of the model can be channels-last, too.

## Left alone
- Models without 2-D convolutions, and models that are already channels-last.
- A model that calls `.view()` on a feature map fails: use `.flatten()` or `.reshape()` instead.

## Same result
Within rounding: convolutions add in another order.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Optional

from ..probe.trial.by_hand import Method, OfArgument
from ..probe.trial.tweak import ROUNDING, Tweaking, tweak
from ..probe.wrapping import Args, Kwargs
from ._modules import Makers, before_ddp, is_lazy, mapped, name_of, on_root_calls

FOUR_D, FIVE_D = 4, 5  # batch, channels, height, width: the one layout that channels-last is for
WAS, BECAME = "NCHW", "NHWC"


@tweak(
    "--channels-last",
    ROUNDING,
    edits=[
        Method("to(memory_format=torch.channels_last)", BECAME),
        OfArgument("contiguous(memory_format=torch.channels_last)", BECAME),
    ],
)
def channels_last(here: Tweaking) -> None:
    """Convert models with 2-D convolutions, and what goes into them."""
    torch = here.torch
    converted: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
    makers = Makers(here)

    def convert(module: Any) -> bool:
        if module not in converted and not is_lazy(torch, module):
            converted[module] = _converted(here, module, makers.line(module))
        return converted.get(module, False)

    def reordered(tensor: Any) -> Any:
        if tensor.dim() != FOUR_D or not tensor.is_floating_point():
            return tensor
        return tensor.contiguous(memory_format=torch.channels_last)

    def argument(module: Any, which: Any, given: Any) -> Any:
        changed = mapped(torch, given, reordered)
        if changed is not given:
            model = name_of(module)
            plain = isinstance(given, torch.Tensor)
            what = OfArgument.place(which, model) if plain else f"{type(given).__name__} given to {model}"
            here.applied(what, WAS, BECAME)
        return changed

    def before(module: Any, args: Args, kwargs: Kwargs) -> Any:
        if not convert(module):
            return None
        by_place = tuple(argument(module, index, given) for index, given in enumerate(args))
        by_name = {name: argument(module, name, given) for name, given in kwargs.items()}
        return by_place, by_name, None

    before_ddp(here, convert)
    on_root_calls(here, before)


def _converted(here: Tweaking, module: Any, made_at: Optional[Dict[str, Any]]) -> bool:
    """Whether the module is converted now."""
    torch = here.torch
    kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
    weights = [part.weight for part in module.modules() if isinstance(part, kinds)]
    if not weights:
        here.left_alone(name_of(module), "it has no 2-D convolution", made_at)
        return False
    in_order = [weight.is_contiguous(memory_format=torch.channels_last) for weight in weights]
    ambiguous = [weight.is_contiguous() for weight in weights]  # 1 x 1 kernels are both
    if all(in_order) and not all(ambiguous):
        here.left_alone(name_of(module), "it is already channels-last", made_at)
        return False
    # not `module.to`, which tries it on 5-D tensors as well, and fails
    module._apply(lambda held: held.to(memory_format=torch.channels_last) if held.dim() == FOUR_D else held)
    held = (*module.parameters(), *module.buffers())
    rest = ", but for its 5-D tensors" if any(tensor.dim() == FIVE_D for tensor in held) else ""
    here.applied(name_of(module) + rest, WAS, BECAME, made_at)
    return True
