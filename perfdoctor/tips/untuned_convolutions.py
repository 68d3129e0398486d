"""Convolutions of unchanging sizes are not timed against each other, and cuDNN takes the kernels it guesses.

## What it sees
Convolutions take a visible share of the device's time, each of their sizes comes again in every step, and
`torch.backends.cudnn.benchmark` is off in the running script.

## By hand
    torch.backends.cudnn.benchmark = True      # at the top of the script

## When not
Every new size is timed once, which takes seconds: with sizes that change from step to step it is slower.
Results may differ in the last bits from run to run."""

from __future__ import annotations

from perfdoctor.analysis.backends import BackendFacts
from perfdoctor.analysis.device import KernelFacts
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck
from perfdoctor.trace.results import KernelClass

NOTICEABLE = 0.10  # share of the time
UNCHANGING = 0.95  # of the convolutions' time in sizes that every step has: the rest is a last, smaller batch
STEPS = 2  # in the window: fewer show no repetition
# Speedups of convolutions by timing them: 1.27 to 1.70 were published for forward and backward of one layer
# (NVIDIA's talk "PyTorch Performance Tuning Guide"). Nothing is gained where the guess was right.
FASTER = (1.02, 1.27, 1.70)


@tip(
    title="Let cuDNN time its convolutions",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("gpu", "convolutional"),
)
def untuned_convolutions(kernels: KernelFacts, backends: BackendFacts) -> Advice | None:
    """cudnn.benchmark, where convolutions of unchanging sizes take a visible share."""
    share = min(1.0, kernels.share(KernelClass.CONVOLUTION))
    known = [use for use in kernels.work if use.kind is KernelClass.CONVOLUTION]
    steps = kernels.files_steps or 0
    if share < NOTICEABLE or backends.cudnn_benchmark is not False or steps < STEPS or not known:
        return None
    same_us = sum(use.us for use in known if use.count >= steps)
    if same_us < UNCHANGING * sum(use.us for use in known):
        return None
    low, likely, high = (share * (1 - 1 / faster) for faster in FASTER)
    return Advice(
        because=(
            f"{share:.1%} of the time goes into convolutions, of {len(known)} sizes that every step has",
            "torch.backends.cudnn.benchmark is off: none of them was timed",
        ),
        change=removes(low, likely, high),
        at=(backends.at,) if backends.at else (),
        tweak="--cudnn-benchmark",
        same_result=False,
        code="torch.backends.cudnn.benchmark = True",
    )
