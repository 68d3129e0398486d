"""Whether somebody records which operators run, and how what we ask of tensors stays out of such records.

A dispatch mode of the script's sees them, as selective checkpointing and counters of operations do, a
profiler of its own writes them down, and what traces or exports makes them a part of its graph.
"""

from __future__ import annotations

import sys
from _thread import _local
from typing import Any, Callable

from ..compile_question import compile_question


class _OfThread(_local):
    """What is known of the calling thread."""

    is_unseen = False


_of_thread = _OfThread()


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
    """`function`, with what it asks tensors kept from modes, tensor classes and profilers of the script's.

    Operators on tensors of a class with a dispatch of its own need that: what is computed on is to be plain.
    """
    import torch

    functions, dispatch = torch._C.DisableTorchFunction, torch._C._DisableTorchDispatch
    record_operators = torch._C._autograd._enable_record_function
    thread = _of_thread

    def call(*args: Any) -> Any:
        if thread.is_unseen:
            return function(*args)
        try:
            thread.is_unseen = True
            record_operators(False)
            with functions(), dispatch():
                return function(*args)
        finally:
            record_operators(True)
            thread.is_unseen = False

    return call
