"""Most of a step is fixed cost: a larger batch would spread it over more samples.

## What it sees
On a CPU, batches of few samples, free memory, and a step that is mostly fixed cost: smaller batches of the
same run take nearly as long, or its samples need little of it (the operations of its matrix products, by
their shapes, at the rate that the fastest of them reaches, and what other operators take beyond a call), or
each of its many operators takes little longer than its call overhead.

## By hand
    DataLoader(dataset, batch_size=128, ...)

## When not
A larger batch takes another path of optimisation: the learning rate may have to grow with it, and accuracy
must be compared. A loop over the samples of a batch is no fixed cost, though it looks like one: compute all
of them in one call first.
"""

from __future__ import annotations

import math

from perfdoctor.facts.steps.batch_size_cost import BatchSizeFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, MemoryFacts, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

SMALL = 32  # samples; up to here batches are called small (Masters and Luschi, arXiv 1804.07612)
NOTICEABLE = 0.40  # share of the step that is fixed
MEMORY = 0.5  # of the machine's: with more in use, a larger batch may not fit
TIMES = 4  # the batch, at least; where more of the step is fixed, more: a power of two
LARGEST = 4 * SMALL  # samples that are advised: beyond, what the model learns is another question
BATCHES = 4  # of an epoch that have to be left for a trial: with fewer, the smaller last one decides


@tip(
    title="Use a larger batch",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("cpu",),
    rivals=("frequent-updates",),
    checked=Checked.SCRIPTS,
)
def small_batch(
    run: RunFacts, step: StepFacts, sizes: BatchSizeFacts, loader: LoaderFacts, memory: MemoryFacts
) -> Advice | None:
    """Advises a larger batch where fixed costs dominate and memory is free."""
    low, likely, high = sizes.fixed
    if run.device != "cpu" or sizes.samples > SMALL or likely < NOTICEABLE or loader.batch_size is None:
        return None
    used, total = memory.peak_rss_bytes, memory.total_bytes
    if used is None or total is None or used > MEMORY * total:
        return None
    times = _times(likely, sizes.samples)
    by_case = zip((low, likely, high), (times / 2, times, times * 2), strict=True)
    gone = [share * (1 - 1 / larger) for share, larger in by_case]
    size = loader.batch_size * times
    return Advice(
        because=(
            f"about {likely:.0%} of a step of {sizes.samples:.0f} samples is fixed cost",
            sizes.because,
            f"{used / 1e9:.1f} of {total / 1e9:.0f} GB of memory are in use",
        ),
        change=removes(*gone),
        at=(loader.at,) if loader.at else (),
        tweak=f"--batch-size {size}" if (loader.items or math.inf) >= BATCHES * size else None,
        same_result=False,
        code=f"batch_size={size}",
    )


def _times(fixed: float, samples: float) -> int:
    """How many times the batch to advise: about where the samples cost as much as what is fixed.

    From there on, a batch twice as large saves less than a third of the time per sample.
    """
    even = fixed / max(1.0 - fixed, 1 / LARGEST)
    most = LARGEST / max(1.0, samples)
    return max(TIMES, 1 << int(math.log2(max(1.0, min(even, most)))))
