"""Most of a step is fixed cost: a larger batch would spread it over more samples.

## What it sees
On a CPU, batches of few samples, free memory, and a step that is mostly fixed cost: smaller batches of the
same run take nearly as long, or its samples need little of it (the operations of its matrix products, by
their shapes, at the rate that the fastest of them reaches, and what other operators take beyond a call), or
each of its many operators takes little longer than its call overhead.

On a GPU, kernels that leave much of the device without work: fewer thread blocks than multiprocessors, so
short that starting them takes most of their time, or products of few samples with many weights; a step that
is mostly that, updates of the parameters and waiting for launches, which larger batches share; and free
memory. The largest batch that fits is estimated by the most memory that was in use, of which parameters,
gradients and the optimizer's state do not grow.

## By hand
    DataLoader(dataset, batch_size=128, ...)

## When not
A larger batch takes another path of optimisation: the learning rate may have to grow with it, and accuracy
must be compared. A loop over the samples of a batch is no fixed cost, though it looks like one: compute all
of them in one call first.
"""

from __future__ import annotations

import math

from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.facts.steps.batch_size_cost import BatchSizeFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts
from perfdoctor.tips.catalogue import Checked, tip

SMALL = 32  # samples on a CPU; up to here batches are called small (Masters and Luschi, arXiv 1804.07612)
NOTICEABLE = 0.40  # share of the step that is fixed
MEMORY = 0.5  # of the machine's: with more in use, a larger batch may not fit
OF_DEVICE = 0.9  # of its memory: a step's peak is higher than samples once a second show
TIMES = 4  # the batch, at least; where more of the step is fixed, more: a power of two
FITS = 2  # times the batch have to fit on a device
LARGEST = 4 * SMALL  # samples that are advised: beyond, what the model learns is another question
MOST_TIMES = 8  # the batch of a device, for the same reason; it may have been large
BATCHES = 4  # of an epoch that have to be left for a trial: with fewer, the smaller last one decides


@tip(
    title="Use a larger batch",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    rivals=("frequent-updates",),
    checked=Checked.SCRIPTS,
    checked_on_device=Checked.TRACES,
)
def small_batch(sizes: BatchSizeFacts, loader: LoaderFacts, room: BatchRoom) -> Advice | None:
    """Advises a larger batch where fixed costs dominate and memory is free."""
    low, likely, high = sizes.fixed
    if likely < NOTICEABLE or loader.batch_size is None:
        return None
    larger = _on_cpu(sizes, room) if sizes.small_for_device is None else _on_device(sizes, room, loader)
    if larger is None:
        return None
    most = min(larger.most, (loader.items or math.inf) / loader.batch_size)  # a batch of all there is
    if most < larger.least:
        return None
    times = _times(likely, larger.least, most)
    by_case = zip((low, likely, high), (times / 2, times, times * 2), strict=True)
    gone = [share * (1 - 1 / count) for share, count in by_case]
    size = loader.batch_size * times
    several = round(sizes.samples / loader.batch_size)  # batches of the loader that one step trains on
    of_batches = f" ({several} batches of {loader.batch_size})" if several > 1 else ""
    return Advice(
        because=(
            f"about {likely:.0%} of a step of {sizes.samples:.0f} samples{of_batches} is fixed cost",
            sizes.because,
            *larger.memory,
        ),
        change=removes(*gone),
        at=(loader.at,) if loader.at else (),
        tweak=f"--batch-size {size}" if (loader.items or math.inf) >= BATCHES * size else None,
        same_result=False,
        code=f"batch_size={size}" + (f"  # of the loader, now {loader.batch_size}" if several > 1 else ""),
        arguments=f"per_device_train_batch_size={size}",
        bottleneck=Bottleneck.HOST if sizes.launching > likely / 2 else None,
    )


@dataclass(frozen=True)
class _Larger:
    """How many times the batch may be, and what is said of memory."""

    least: int
    most: float
    memory: tuple[str, ...]


def _on_cpu(sizes: BatchSizeFacts, room: BatchRoom) -> _Larger | None:
    if sizes.samples > SMALL or room.used_bytes > MEMORY * room.total_bytes:
        return None
    return _Larger(TIMES, LARGEST / max(1.0, sizes.samples), (_in_use(room, "memory"),))


def _on_device(sizes: BatchSizeFacts, room: BatchRoom, loader: LoaderFacts) -> _Larger | None:
    fits = OF_DEVICE * room.times
    if not sizes.small_for_device or fits < FITS:
        return None
    why = "if all of it grows with the batch"
    if room.fixed_bytes:
        fixed = f"{room.fixed_bytes / 1e9:.1f} GB of it (parameters, gradients, optimizer state)"
        why = f"as {fixed} does not grow"
    largest = f"batches of about {int(fits * (loader.batch_size or 1)):,} fit, {why}"
    return _Larger(FITS, min(MOST_TIMES, fits), (_in_use(room, "device memory"), largest))


def _in_use(room: BatchRoom, what: str) -> str:
    return f"{room.used_bytes / 1e9:.1f} of {room.total_bytes / 1e9:.0f} GB of {what} are in use"


def _times(fixed: float, least: int, most: float) -> int:
    """How many times the batch to advise: about where the samples cost as much as what is fixed.

    From there on, a batch twice as large saves less than a third of the time per sample.
    """
    even = fixed / max(1.0 - fixed, 1 / LARGEST)
    return max(least, 1 << int(math.log2(max(1.0, min(even, most)))))
