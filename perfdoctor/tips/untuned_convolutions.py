"""cuDNN guesses its convolution kernels instead of timing them, although the sizes do not change.

## What it sees
Convolutions take a noticeable share of the device's time, each of their sizes recurs in every step, and
`torch.backends.cudnn.benchmark` is off in the running script.

## By hand
    torch.backends.cudnn.benchmark = True      # at the top of the script

## When not
cuDNN 9 and later guess well: on one device nothing was gained. Every new size is timed once, which takes
seconds: with sizes that change from step to step it is slower.
Results may differ in the last bits from run to run.
"""

from __future__ import annotations

from perfdoctor.facts.device.device import KernelFacts
from perfdoctor.facts.script.backends import BackendFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import KernelClass

NOTICEABLE = 0.10  # share of the time
UNCHANGING = 0.95  # of the convolutions' time in sizes that every step has: the rest is a last, smaller batch
STEPS = 2  # in the window: fewer show no repetition
# Speedups of convolutions by timing them: 1.27 to 1.70 were published for forward and backward of one layer
# (NVIDIA's talk "PyTorch Performance Tuning Guide"). Nothing is gained where the guess was right.
FASTER = (1.02, 1.27, 1.70)
# From version 9 on it guesses well: 0.98 to 1.03 for 18 kinds of convolutions on an H200 (docs/gpu.md).
GUESSES_WELL = 9
LITTLE_FASTER = (0.98, 1.02, 1.27)


@tip(
    title="Let cuDNN benchmark its convolutions",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("gpu", "convolutional"),
    kernels_only=True,
)
def untuned_convolutions(kernels: KernelFacts, backends: BackendFacts) -> Advice | None:
    """Advises cudnn.benchmark where convolutions of unchanging sizes take a noticeable share."""
    share = min(1.0, kernels.share(KernelClass.CONVOLUTION))
    sized = [use for use in kernels.work if use.kind is KernelClass.CONVOLUTION]
    steps = kernels.judged_steps or 0
    if share < NOTICEABLE or backends.cudnn_benchmark is not False or steps < STEPS or not sized:
        return None
    same_us = sum(use.us for use in sized if use.count >= steps)
    if same_us < UNCHANGING * sum(use.us for use in sized):
        return None
    guesses_well = backends.cudnn_version is not None and backends.cudnn_version >= GUESSES_WELL
    gains = LITTLE_FASTER if guesses_well else FASTER
    low, likely, high = (share * (1 - 1 / faster) for faster in gains)
    return Advice(
        because=(
            f"{share:.1%} of the time goes into convolutions, of {len(sized)} sizes that recur in every step",
            "torch.backends.cudnn.benchmark is off: cuDNN did not time its kernels for them",
        ),
        change=removes(low, likely, high),
        at=(backends.at,) if backends.at else (),
        tweak="--cudnn-benchmark",
        same_result=False,
        code="torch.backends.cudnn.benchmark = True",
    )
