"""Chains of pointwise kernels read and write the same memory again and again; compiling fuses them.

## What it sees
Pointwise kernels that no compiler fused take a visible share of the device's time, nothing else computing
beside them.

## By hand
    model = torch.compile(model)

## When not
Compiling takes seconds to minutes and starts again for every new input shape: a short run does not earn it
back.
"""

from __future__ import annotations

from perfdoctor.analysis.device import KernelFacts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck
from perfdoctor.trace.results import KernelClass

NOTICEABLE = 0.15  # share of the time; below it compiling rarely earns its own time back
FUSIBLE = (KernelClass.POINTWISE, KernelClass.NORMALISATION, KernelClass.REDUCTION)
COMPILED = "triton_"  # how the kernels that torch.compile writes are named
# Of their time, where few of them can be fused, where two become one, and where five do: fusing three kernels
# of an activation took 335 us to 115, five of its gradient 614 us to 139 (onnxruntime pull request 12417).
FUSED = (0.2, 0.5, 0.75)


@tip(
    title="Compile the model",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("gpu",),
    rivals=("interpreter-bound",),
    checked=Checked.TRACES,
)
def uncompiled_model(kernels: KernelFacts) -> Advice | None:
    """torch.compile, where unfused pointwise kernels take a visible share."""
    found = [kernel for kernel in kernels.kernels if kernel.kind in FUSIBLE]
    plain = [kernel for kernel in found if not kernel.name.startswith(COMPILED)]
    share = min(1.0, sum(kernels.alone(kernel) for kernel in plain))
    count = sum(kernel.count for kernel in plain)
    if share < NOTICEABLE or len(plain) < len(found) or not count:
        return None
    mean_us = sum(kernel.us for kernel in plain) / count
    low, likely, high = (share * fused for fused in FUSED)
    return Advice(
        because=(
            f"{share:.1%} of the time goes into {count:,} pointwise, normalising and reducing kernels",
            f"they take {mean_us:.1f} µs each, and none was written by a compiler",
        ),
        change=removes(low, likely, high),
        tweak="--compile",
        same_result=False,
        code="model = torch.compile(model)",
    )
