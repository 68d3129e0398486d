"""Run what torch.compile compiles as it is written.

## What changes
From the script's first call of `torch.compile` on, torch is told to run compiled functions and modules
eagerly. The modules that the call returns stay what they are, and so do the keys of their state_dict.

## Left alone
- TorchScript, and code that was compiled ahead of time.
- Scripts that never call torch.compile.

## Same result
Within rounding: fused operations round less often. A model with dropout draws other random numbers.
"""

from __future__ import annotations

from typing import Any

from ..probe.trial.tweak import ROUNDING, Tweaking, tweak


@tweak("--no-compile", ROUNDING, first_epoch=True)
def no_compile(here: Tweaking) -> None:
    """Turn compilation off once it is asked for."""
    torch = here.torch
    module = torch.nn.Module

    def before(args: Any, kwargs: Any) -> Any:
        stance = getattr(torch.compiler, "set_stance", None)
        if stance is None:  # before torch 2.6
            here.applied("torch.compile", "compiled", "eager")
            return args, {**kwargs, "disable": True}, torch.compiler
        stance("force_eager")
        here.applied("torch.compile", "compiled", "eager")
        return None

    def after(compiler: Any, result: Any) -> Any:
        """What was not compiled is the bare module: wrapped, its state has the keys of a compiled one."""
        return compiler.disable(result) if isinstance(result, module) else result

    here.alter(torch, "compile", before, after)
