"""Whether somebody records which operators run: what we computed would then be seen, counted or kept as well.

A dispatch mode of the script's sees them, as selective checkpointing and counters of operations do, and what
traces or exports makes them a part of its graph.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

from ..compile_question import compile_question


def recording_question() -> Callable[[], bool]:
    """The function that asks it, in the calling thread; torch's own profilers are not meant."""
    import torch

    modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
    traced = getattr(torch._C, "_is_tracing", torch.jit.is_tracing)
    _, compiler = compile_question()

    def is_recording() -> bool:
        if modes() or traced() or compiler._is_compiling_flag:
            return True
        symbolic = sys.modules.get("torch.fx._symbolic_trace")
        return symbolic is not None and bool(getattr(symbolic, "_is_fx_tracing_flag", False))

    return is_recording


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with what it asks tensors kept from function modes and tensor classes of the script's."""
    import torch

    kept_out = torch._C.DisableTorchFunction

    def call(*args: Any) -> Any:
        with kept_out():
            return function(*args)

    return call
