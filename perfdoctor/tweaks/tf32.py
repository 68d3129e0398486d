"""Use TF32 for float32 matrix products and convolutions.

## What changes
`torch.set_float32_matmul_precision("high")` and `torch.backends.cudnn.allow_tf32 = True`, once a model on a
CUDA device is called.

## Left alone
- All devices but NVIDIA's from Ampere on: others have no TF32 units.
- Settings that are already on. What the script sets after that first call stays as set.

## Same result
Within rounding: products are computed from numbers with 10 bits after the binary point instead of 23.
"""

from __future__ import annotations

from typing import Any

from ..probe.trial.by_hand import Statement
from ..probe.trial.tweak import ROUNDING, Tweaking, tweak
from ..probe.wrapping import Args, Kwargs
from ._modules import name_of, on_root_calls

AMPERE = (8, 0)  # the first compute capability with TF32: CUDA C++ Programming Guide
OFF, ON = "float32", "tf32"
SETTINGS = ("allow_tf32", "fp32_precision")  # by which scripts turn it on or off


@tweak(
    "--tf32",
    ROUNDING,
    edits=[
        Statement('torch.set_float32_matmul_precision("high")', what="float32 matrix", rivals=SETTINGS),
        Statement("torch.backends.cudnn.allow_tf32 = True", what="float32 in cuDNN", rivals=SETTINGS),
    ],
)
def tf32(here: Tweaking) -> None:
    """Turn TF32 on for the device of the first model."""
    torch = here.torch
    devices = set()

    def before(module: Any, args: Args, kwargs: Kwargs) -> None:
        device = next(module.parameters()).device
        if device in devices:
            return
        devices.add(device)
        if not _has_units(torch, device):
            here.left_alone(name_of(module), f"{device} has no TF32 units")
            return
        matmul, convolution = _is_on_for_matmul(torch), _is_on_for_cudnn(torch)
        if matmul and convolution:
            here.left_alone("float32 matrix products", "TF32 is already on")
        if not matmul:
            torch.set_float32_matmul_precision("high")
            here.applied("float32 matrix products", OFF, ON)
        if not convolution:
            torch.backends.cudnn.allow_tf32 = True
            here.applied("float32 in cuDNN", OFF, ON)

    on_root_calls(here, before)


def _has_units(torch: Any, device: Any) -> bool:
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return bool(torch.cuda.get_device_capability(device) >= AMPERE)


def _is_on_for_matmul(torch: Any) -> bool:
    """Reads the newer of two settings, where torch has it: the older one fails once both were set."""
    matmul = torch.backends.cuda.matmul
    newer = getattr(matmul, "fp32_precision", None)
    return bool(matmul.allow_tf32) if newer is None else newer == ON


def _is_on_for_cudnn(torch: Any) -> bool:
    cudnn = torch.backends.cudnn
    newer = getattr(getattr(cudnn, "conv", None), "fp32_precision", None)
    return bool(cudnn.allow_tf32) if newer is None else newer == ON
