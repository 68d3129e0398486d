"""Gradients are accumulated over micro-batches so small that calling operations takes most of their time.

## What it sees
On a CPU: several forward and backward passes for each update, a module takes little longer for each of them
than calling its operations does, and memory is free.

## By hand
    TrainingArguments(per_device_train_batch_size=32, gradient_accumulation_steps=1)
    DataLoader(dataset, batch_size=32, ...)      # and one backward for each update

An update is made from the same samples as before.

## When not
Where larger micro-batches do not fit into memory. Batch normalisation and losses that compare the samples of
a batch see more of them at once, and dropout draws other numbers: results are not the same to the last bit.
"""

from __future__ import annotations

from perfdoctor.facts.script.accumulation import AccumulationFacts
from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts, ThreadFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of the step, likely
# Of a module's forward and backward, what calling its operations takes however few samples they compute on:
# at worst, likely, at best. Transformers of one millisecond a module keep 0.1 to 0.2 ms for fewer positions.
CALLS_S = (0.04e-3, 0.08e-3, 0.2e-3)
MOST = (0.6, 0.8, 0.95)  # of a pass: samples cost something
MEMORY = 0.5  # of the machine's: with more in use, larger ones may not fit
LARGEST = 64  # samples of a micro-batch that is advised


@tip(
    title="Train on fewer, larger micro-batches",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("cpu",),
    rivals=("small-batch",),
    checked=Checked.SCRIPTS,
)
def small_micro_batches(
    run: RunFacts, step: StepFacts, micro: AccumulationFacts, threads: ThreadFacts, room: BatchRoom
) -> Advice | None:
    """Advises to accumulate over fewer batches where each is mostly fixed cost."""
    together = min(micro.batches, max(1, LARGEST // micro.size))
    if (
        run.on_device
        or not threads.per_module_s
        or together < 2
        or room.used_bytes > MEMORY * room.total_bytes
    ):
        return None
    computing = step.share(Phase.FORWARD) + step.share(Phase.BACKWARD)
    low, likely, high = (
        computing * (1 - 1 / together) * min(most, calls_s / threads.per_module_s)
        for most, calls_s in zip(MOST, CALLS_S, strict=True)
    )
    if likely < NOTICEABLE:
        return None
    size, left = micro.size * together, -(-micro.batches // together)
    return Advice(
        because=(
            f"each update is made from {micro.batches} micro-batches of {micro.size} samples",
            f"forward and backward of one take {threads.per_module_s * 1e6:.0f} µs a module, mostly calls",
            f"{room.used_bytes / 1e9:.1f} of {room.total_bytes / 1e9:.0f} GB of memory are in use",
        ),
        change=removes(low, likely, high),
        at=micro.at,
        same_result=False,
        code=f"batch_size={size}  # and {left} backward{'s' if left > 1 else ''} for each update",
        arguments=f"per_device_train_batch_size={size}, gradient_accumulation_steps={left}",
    )
