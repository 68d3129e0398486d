"""Compile the model with torch.compile.

`--compile-mode default|reduce-overhead|max-autotune` is passed on to torch.compile.

## What changes
Each outermost module that trains is compiled at its first call, in place: its type, its parameters and the
keys of its state_dict stay the same. Under DistributedDataParallel the module inside is compiled, as torch's
documentation advises. Compiling takes seconds to minutes; a trial reports that time separately, as warm-up.

## Left alone
- Models that are already compiled, as a whole or in parts, and TorchScript.
- Models inside `DataParallel` or `FullyShardedDataParallel`: compile their blocks by hand.
- Methods other than the call itself, the loss, the optimizer.
- Models that are never called for training.

## Same result
Within rounding: fused operations round less often. A model with dropout draws other random numbers.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Optional

from ..probe.trial.by_hand import Argument, Method
from ..probe.trial.tweak import COMPILED, ROUNDING, OneOf, Tweaking, tweak
from ..probe.wrapping import Args, Kwargs
from ._modules import Makers, name_of, on_root_calls

MODES = ("default", "reduce-overhead", "max-autotune")
COMPILED_IN = "compiled ({})"
WRAPPERS = ("DataParallel", "FullyShardedDataParallel")  # by name: importing them costs


@tweak(
    "--compile",
    ROUNDING,
    extras={"--compile-mode": OneOf(*MODES)},
    first_epoch=True,
    pays=COMPILED,
    edits=[
        Argument(name="torch_compile", became=COMPILED_IN.format(MODES[0]), to=True, trainer="torch_compile"),
        Method("compile()", became=COMPILED_IN.format(MODES[0])),
        *(Method(f'compile(mode="{mode}")', became=COMPILED_IN.format(mode)) for mode in MODES[1:]),
    ],
)
def compile(here: Tweaking, compile_mode: str = "default") -> None:
    """Compile every model at its first training call."""
    torch = here.torch
    seen: weakref.WeakSet[Any] = weakref.WeakSet()
    makers = Makers(here)

    def before(module: Any, args: Args, kwargs: Kwargs) -> None:
        if module in seen or not module.training or not torch.is_grad_enabled():
            return
        seen.add(module)
        because = _why_not(torch, module)
        if because is not None:
            here.left_alone(name_of(module), because, makers.line(module))
            return
        # What module.compile() does, but for the partial: without it, a model that is one of torch's own
        # containers stays uncompiled, without a word (pytorch#150915).
        whole = functools.partial(module._call_impl)
        module._compiled_call_impl = torch.compile(whole, mode=compile_mode)
        here.applied(name_of(module), "eager", COMPILED_IN.format(compile_mode), makers.line(module))

    on_root_calls(here, before)


def _why_not(torch: Any, module: Any) -> Optional[str]:
    if isinstance(module, torch.jit.ScriptModule):
        return "it is TorchScript"
    if type(module).__name__ in WRAPPERS:
        return f"{type(module).__name__} does not work with torch.compile"
    if _is_compiled(module):
        return "it is already compiled"
    if any(_is_compiled(part) for part in module.modules()):
        return "parts of it are already compiled"
    return None


def _is_compiled(module: Any) -> bool:
    return (
        module._compiled_call_impl is not None
        or hasattr(module, "_orig_mod")  # of torch.compile(module)
        or hasattr(module.forward, "_torchdynamo_orig_callable")
    )
