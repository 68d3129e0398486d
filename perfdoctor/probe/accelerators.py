"""The accelerator of a process, whatever torch calls it: CUDA and ROCm, XPU, MPS, a vendor's own name.

From torch 2.6 on, `torch.accelerator` names the kind that torch was built for; before, there is CUDA's module
to ask. Each kind has a module with much of what CUDA's has, not all of it. Nothing here starts a device.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

CUDA, MPS = "cuda", "mps"  # ROCm's module is called cuda as well


class Accelerator:
    """A kind of device, and torch's module for it."""

    def __init__(self, kind: str, module: Any) -> None:
        self.kind = kind
        self.module = module

    def ask(self, name: str, *args: Any) -> Any:
        """What a function of the module answers; None where this kind has no such function."""
        function = getattr(self.module, name, None)
        return None if function is None else function(*args)

    @property
    def is_capturing(self) -> bool:
        """Whether what is launched now goes into a graph."""
        return bool(self.ask("is_current_stream_capturing"))


def built_for(torch: Any) -> Optional[Accelerator]:
    """The kind that this torch was built for, or None; whether there is such a device is not asked."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return Accelerator(CUDA, torch.cuda)
    device = _built_for(torch, accelerator.current_accelerator)
    return of_kind(torch, device.type) if device is not None else None


def _built_for(torch: Any, ask: Callable[..., Any]) -> Any:
    """What torch answers, without starting anything, and without its error where there is no device."""
    code = getattr(ask, "__code__", None)
    counts = code is not None and "check_available" not in code.co_varnames  # torch 2.6
    if counts and (torch.version.cuda or torch.version.hip):
        return torch.device(CUDA)  # counting devices starts CUDA's driver
    try:
        return ask()
    except RuntimeError:
        return None


def of_kind(torch: Any, kind: str) -> Optional[Accelerator]:
    """A kind by its name; None for the CPU, and for one whose module is not there."""
    module = getattr(torch, kind, None) if kind != "cpu" else None
    return Accelerator(kind, module) if module is not None else None


def in_use(torch: Any) -> Optional[Accelerator]:
    """The kind that the script has initialised in this process, or None."""
    if torch.cuda.is_initialized():
        return Accelerator(CUDA, torch.cuda)
    found = built_for(torch)
    if found is None or found.kind == CUDA:
        return None
    # MPS has no start of its own
    started = found.ask("is_initialized" if hasattr(found.module, "is_initialized") else "is_available")
    return found if started else None


def available(torch: Any) -> Optional[Accelerator]:
    """The kind of device that this process can use, or None."""
    accelerator = getattr(torch, "accelerator", None)
    if not (torch.cuda.is_available() if accelerator is None else accelerator.is_available()):
        return None
    return built_for(torch)
