"""Compute in float32 instead of float64.

## What changes
The parameters, buffers and other tensors of each model whose parameters are all float64, in place before its
first call or before DistributedDataParallel wraps it; and each float64 tensor that goes into it. Its outputs
are converted back to float64, so that losses and targets of the script work as before. Inside a call, float32
is torch's default number type.

## Left alone
- What the script computes in float64 outside of models: losses, metrics, data.
- Models whose parameters are of several types, or complex, which is likely intended.
- Code that uses a parameter outside of the model's call sees float32.

## Same result
Within rounding: 24 binary digits instead of 53. Solvers and Gaussian processes can need the 53.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..probe import patch
from ..probe.trial.tweak import ROUNDING, Tweaking, tweak
from ..probe.wrapping import Args, Kwargs
from ._modules import before_ddp, is_lazy, mapped, name_of, on_root_calls


@tweak("--float32", ROUNDING)
def float32(here: Tweaking) -> None:
    """Make float64 models float32; their inputs and outputs stay float64."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    narrow = _Narrow(here)
    before_ddp(here, narrow.is_narrowed)
    on_root_calls(here, narrow.before, narrow.after, outermost=True)
    register_optimizer_step_pre_hook(patch.optimizer_hook(here.name, narrow.before_step))


class _Narrow:
    """The models of one process that were float64."""

    def __init__(self, here: Tweaking) -> None:
        self.here = here
        self.torch = here.torch
        self.models: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # whose state is looked through

    def before(self, module: Any, args: Args, kwargs: Kwargs) -> Any:
        """Converts the inputs to float32."""
        if not self.is_narrowed(module):
            return None
        was = self.torch.get_default_dtype()
        self.torch.set_default_dtype(self.torch.float32)
        return mapped(self.torch, args, self._narrow), mapped(self.torch, kwargs, self._narrow), was

    def after(self, was: Any, result: Any) -> Any:
        """Converts the outputs back to float64."""
        self.torch.set_default_dtype(was)
        return mapped(self.torch, result, self._widen)

    def is_narrowed(self, module: Any) -> bool:
        """Whether the module was float64; it no longer is."""
        if module not in self.models and not is_lazy(self.torch, module):
            self.models[module] = self._is_double(module)
            if self.models[module]:
                self._convert(module)
        return self.models.get(module, False)

    def _is_double(self, module: Any) -> bool:
        kinds = {one.dtype for one in module.parameters() if one.is_floating_point() or one.is_complex()}
        double = self.torch.float64
        if double in kinds and len(kinds) > 1:
            self.here.left_alone(name_of(module), "only some of its parameters are float64")
        return kinds == {double}

    def _convert(self, module: Any) -> None:
        module._apply(self._narrow)  # what .float() does, for float64 only
        for part in module.modules():
            for name, value in list(vars(part).items()):
                if type(value) is self.torch.Tensor and value.dtype is self.torch.float64:
                    setattr(part, name, self._narrow(value))
        self.here.applied(name_of(module), "float64", "float32")

    def before_step(self, optimizer: Any) -> None:
        """Converts an optimizer's state once: it was loaded from a checkpoint of the float64 model."""
        if optimizer in self.optimizers or True not in self.models.values():
            return
        self.optimizers.add(optimizer)
        for parameter, state in optimizer.state.items():
            if isinstance(parameter, self.torch.Tensor) and parameter.dtype is self.torch.float32:
                state.update(mapped(self.torch, dict(state), self._narrow))

    def _narrow(self, tensor: Any) -> Any:
        return tensor.float() if tensor.dtype is self.torch.float64 else tensor

    def _widen(self, tensor: Any) -> Any:
        return tensor.double() if tensor.dtype is self.torch.float32 else tensor
