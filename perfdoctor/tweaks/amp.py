"""Use mixed precision (autocast): compute in 16 bits where it is safe.

`--amp-dtype bf16|fp16` names the type; the default is bf16, or fp16 on a CUDA device without bf16 units.

## What changes
Each outermost call of a module that has parameters, training or not, runs under `torch.autocast`. What it
returns is converted back to float32, in the same containers, so the loss is computed as before. Parameters,
gradients, optimizers and checkpoints stay float32. In fp16 the backward pass starts from a large scale
instead of 1, and gradients are divided by it when the pass ends: clipping, logging, accumulation and
optimizers see true gradients. A step whose gradients overflowed is skipped, and the scale is halved.

## Left alone
- Modules that the script calls under autocast, or that enter it themselves.
- Modules whose parameters are not float32: the script called `.half()`, `.bfloat16()` or `.double()`.
- Training steps that torch.compile compiles as a whole, and functions that are not modules.
- Loss scaling where the script has its own `GradScaler`, for `torch.autograd.grad`, and for
  `backward(create_graph=True)`. fp16 where parameters are sharded (FSDP).
- In fp16, hooks on gradients, `retain_grad()`, and tensors that belong to no model, no optimizer and no call
  see scaled gradients, as they do with a `GradScaler`.

fp16 on a CPU is slow, and torch has no recurrent layers for it; this is the same without perfdoctor.

## Same result
Within rounding: products are computed with fewer digits, sums and losses are not. Compare the loss.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import Any, Dict, List, Optional

from ..probe.trial.by_hand import BF16_ON, Argument, Autocast
from ..probe.trial.tweak import ROUNDING, OneOf, Tweaking, tweak
from ..probe.wrapping import Args, Kwargs
from ._modules import mapped, name_of, on_root_calls
from ._scaling import Scaling

DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
FULL = "float32"
AMPERE = (8, 0)  # NVIDIA's compute capability from which on there are bf16 units: CUDA C++ Programming Guide
SHARDED = ("FullyShardedDataParallel", "DTensor")  # types, by name: importing them costs


@tweak(
    "--amp",
    ROUNDING,
    extras={"--amp-dtype": OneOf(*DTYPES)},
    edits=[Argument(name="bf16", became=BF16_ON, to=True, trainer="bf16"), Autocast()],
)
def amp(here: Tweaking, amp_dtype: Optional[str] = None) -> None:
    """Run every model under autocast, with loss scaling in fp16."""
    scaling = Scaling(here)
    mixed = _Mixed(here, scaling, amp_dtype)
    on_root_calls(here, mixed.before, mixed.after)
    here.alter(here.torch.autocast, "__enter__", mixed.script_enters)
    if amp_dtype != "bf16":  # its exponents reach as far as those of float32
        scaling.install()


class _Mixed:
    """Autocast around the outermost calls of one process."""

    def __init__(self, here: Tweaking, scaling: Scaling, asked: Optional[str]) -> None:
        self.here = here
        self.torch = here.torch
        self.scaling = scaling
        self.asked = asked
        self.modes: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # None: left alone
        self.reported: weakref.WeakSet[Any] = weakref.WeakSet()  # as changed
        self.ours: Any = None  # the autocast that is entered
        self.thread = 0  # in which it is
        self.script_entered = False  # one of its own, inside

    def before(self, module: Any, args: Args, kwargs: Kwargs) -> Any:
        """Enters autocast."""
        if self.ours is not None and self.thread != get_ident() and _is_on(self.torch, self.ours.device):
            # A replica of DataParallel: torch turns autocast on in its thread, perhaps with another type.
            replica = self.torch.autocast(self.ours.device, dtype=self.ours.fast_dtype)
            replica.__enter__()
            return args, kwargs, (None, replica, args)
        if module not in self.modes:
            self.modes[module] = self._chosen(module)
        mode = self.modes[module]
        if mode is None:
            return None
        if _is_on(self.torch, mode["device_type"]):
            self._leave(module, "the script calls it under autocast")
            return None
        self.script_entered = False
        self.ours, self.thread = self.torch.autocast(**mode), get_ident()
        self.ours.__enter__()
        return args, kwargs, (module, self.ours, args)

    def after(self, token: Any, result: Any) -> Any:
        """Leaves autocast, and returns float32."""
        module, entered, args = token
        entered.__exit__(None, None, None)
        if module is None:
            return result
        self.ours = None
        if self.script_entered:
            self._leave(module, "it enters autocast by itself")
            return result
        dtype = entered.fast_dtype
        self.reported.add(module)
        self.here.applied(self._said(module, result), FULL, f"{_word(dtype)} on {entered.device}")
        if dtype is self.torch.float16:
            self.scaling.cover(module, args)
        return mapped(self.torch, result, lambda tensor: tensor.float() if tensor.dtype is dtype else tensor)

    def _said(self, module: Any, result: Any) -> str:
        """The model's name, with what it returns where that is not one tensor."""
        plain = isinstance(result, self.torch.Tensor) and result.is_floating_point()
        return name_of(module) if plain else f"{name_of(module)}, which returns {type(result).__name__}"

    def script_enters(self, args: Args, kwargs: Kwargs) -> None:
        """Called when a module enters autocast by itself: leaves it alone."""
        if self.ours is None or self.thread != get_ident():
            return
        if args[0] is not self.ours and args[0]._enabled:
            self.script_entered = True

    def _leave(self, module: Any, because: str) -> None:
        """Leaves a module alone from now on."""
        self.modes[module] = None
        tell = self.here.withdrawn if module in self.reported else self.here.left_alone
        tell(name_of(module), because)

    def _chosen(self, module: Any) -> Optional[Dict[str, Any]]:
        """The arguments of autocast for a module; None where it stays as it is."""
        parameters = list(module.parameters())
        kinds = {_word(one.dtype) for one in parameters if one.is_floating_point()}
        device = parameters[0].device
        name = self.asked or ("bf16" if self._has_bf16(device) else "fp16")
        mode = {"device_type": device.type, "dtype": getattr(self.torch, DTYPES[name])}
        if kinds != {FULL}:
            self._leave(module, f"its parameters are {' and '.join(sorted(kinds)) or 'not floating point'}")
        elif not self._is_possible(mode):
            self._leave(module, f"autocast cannot compute in {name} on {device.type}")
        elif name == "fp16" and _is_sharded(module, parameters):
            self._leave(module, "its parameters are sharded, and no single rank can detect an fp16 overflow")
        else:
            return mode
        return None

    def _has_bf16(self, device: Any) -> bool:
        return device.type != "cuda" or bool(self.torch.cuda.get_device_capability(device) >= AMPERE)

    def _is_possible(self, mode: Dict[str, Any]) -> bool:
        try:
            return bool(self.torch.autocast(**mode)._enabled)
        except RuntimeError:
            return False


def _is_sharded(module: Any, parameters: List[Any]) -> bool:
    return any(type(one).__name__ in SHARDED for one in (*parameters, *module.modules()))


def _word(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _is_on(torch: Any, device: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(device))
    except TypeError:  # torch before 2.4
        return bool(torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled())
