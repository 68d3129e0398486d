"""Tensors within `torch.func`: `grad` wraps them, and under `vmap` one stands for many."""

from __future__ import annotations

from typing import Any


def is_wrapped(torch: Any, tensor: Any) -> bool:
    """Whether a transform has wrapped the tensor: it has no memory of its own to read."""
    functorch = getattr(torch._C, "_functorch", None)
    return functorch is not None and bool(functorch.is_functorch_wrapped_tensor(tensor))


def is_batched(torch: Any, tensor: Any) -> bool:
    """Whether `vmap` goes over the tensor: it has many values where it seems to have one."""
    while is_wrapped(torch, tensor):
        if torch._C._functorch.is_batchedtensor(tensor):
            return True
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return False
