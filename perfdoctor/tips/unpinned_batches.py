"""Batches are copied to the device from memory that is not pinned, and the training thread waits for it.

## What it sees
Copies to the device take a noticeable share of the training thread's time, the loader does not pin its
batches, and no window of the profiler shows what the device does meanwhile, as in short runs or where a
container keeps the profiler out. A wait in a copy may be one for earlier work of the device, which pinning
does not shorten: what is likely to go is told by the bytes of a batch.

## By hand
    DataLoader(..., pin_memory=True)
    batch = batch.to(device, non_blocking=True)

## When not
Pinned memory is never swapped, and is taken from the whole machine: with little free memory, everything slows
down. Where the device is busy all the time, nothing is gained. With a window, `pageable-memory-copies` tells
more.
"""

from __future__ import annotations

from perfdoctor.facts.device.timed_copies import PAGEABLE, TimedCopyFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, Phase, StepFacts
from perfdoctor.model.units import size
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.03  # share of the step that likely goes; less drowns in step-to-step noise
PINNED = 12e9  # bytes a second, of the machine that PAGEABLE is of
SHOWN = 3  # lines named


@tip(
    title="Let the loader pin its batches",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.FLAG,
    applies=("gpu",),
    rivals=("pageable-memory-copies",),
)
def unpinned_batches(step: StepFacts, loader: LoaderFacts, copies: TimedCopyFacts) -> Advice | None:
    """Advises pinned memory where copies of batches that are not pinned hold the training thread up."""
    moving = min(copies.share, copies.batch_bytes / PAGEABLE / step.mean_s)
    likely = moving * (1 - PAGEABLE / PINNED)
    if loader.pin_memory or copies.pinned_by_hand or likely < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"copies to the device take {min(1.0, copies.share):.0%} of the training thread's time",
            f"a step copies {size(copies.batch_bytes)} of batches, and pin_memory is False",
            "no profiler window shows whether the device computes meanwhile: the range is wide",
        ),
        change=removes(0.0, likely, copies.share),
        at=copies.at[:SHOWN] or ((loader.at,) if loader.at else ()),
        tweak="--pin-memory --non-blocking",
        code="DataLoader(..., pin_memory=True)\nbatch = batch.to(device, non_blocking=True)",
        phase=Phase.HOST_TO_DEVICE,
    )
