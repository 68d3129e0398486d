"""Backward computes parts of the forward pass again, although there is memory to keep them.

## What it sees
Activation checkpointing (`gradient_checkpointing=True`, `torch.utils.checkpoint`) is on: parts of the forward
pass run a second time inside backward, which takes a visible share of the step, and less memory is in use
than is free. On a CPU the time is measured. On a device it is estimated from the part of the forward pass
that runs again; where the device waits for the host, the host's time counts, with what checkpoint's own calls
take of it. What `torch.compile` has made part of a graph is not seen.

## By hand
    TrainingArguments(..., gradient_checkpointing=False)
    hidden = block(hidden)                              # instead of checkpoint(block, hidden)

Without it, activations stay in memory from forward to backward, and often take 5 to 17 times as much. Where
that may be too much, the advice is to checkpoint every second block only.

## When not
Where activations would not fit: most of what a training step needs may be what checkpointing saves. Look at
the memory in use in the first steps without it. Where the memory is wanted for something else: a larger
batch, longer sequences, another run on the same machine.
"""

from __future__ import annotations

from perfdoctor.facts.script.recomputation import RecomputationFacts
from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.units import size
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step: below, the memory is worth more than the time
# Of the time that computing again takes, what goes: 0.79 to 1.13 in eight pairs of language models on a CPU,
# 1.4 to 2 in two of tiny blocks. Keeping activations has a price, and so have the calls of checkpoint.
GONE = (0.8, 1.0, 1.2)
# What activations take without it, in times of what they take with it. A block of a transformer that is
# computed again keeps its input alone, 2 of 34 bytes for each element without attention's scores (Korthikanti
# et al., arXiv 2205.05198); the block that is computed and the loss lie in memory either way: 5 to 17 in all.
TIMES = 8
NAMED = 0.01  # of the step: a smaller part is not mentioned
HALF = 0.5  # of the blocks are kept, where all of them may not fit
OFF = "gradient_checkpointing=False  # or call the block itself; activations then stay in memory"
EVERY_SECOND = """\
for index, block in enumerate(blocks):  # compute every second one again
    hidden = checkpoint(block, hidden, use_reentrant=False) if index % 2 else block(hidden)"""


@tip(
    title="Checkpoint fewer activations, or none",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def needless_recomputation(again: RecomputationFacts, room: BatchRoom) -> Advice | None:
    """Advises keeping activations where computing them again costs time and memory is free."""
    share = again.share
    if share.likely < NOTICEABLE or again.used_bytes > again.free_bytes:
        return None
    about = "about " if again.on_device else ""
    memory = "the device's memory" if again.on_device else "memory"
    often = f"about {max(1.0, again.calls_per_step):.0f} a step"
    keep = 1.0 if _fit(room) else HALF
    low, likely, high = (
        keep * part * gone for part, gone in zip((share.low, share.likely, share.high), GONE, strict=True)
    )
    return Advice(
        because=(
            f"{about}{share.likely:.0%} of each step runs parts of the forward pass again, {often}",
            *_for_host(again),
            f"{size(again.used_bytes)} of {memory} are in use, {size(again.free_bytes)} are free",
            *(
                ()
                if _fit(room)
                else (f"that may be too little for {TIMES} times the activations: keep half",)
            ),
        ),
        change=removes(low, likely, min(1.0, high)),
        bottleneck=None if again.calling is None else Bottleneck.HOST,
        at=(again.at,) if again.at else (),
        code=OFF if _fit(room) else EVERY_SECOND,
    )


def _for_host(again: RecomputationFacts) -> tuple[str, ...]:
    """Whose time it is, where the host sets the pace."""
    if again.calling is None:
        return ()
    own = f", {again.calling:.0%} of each step for checkpoint's own calls" if again.calling >= NAMED else ""
    return (f"the device waits for the host meanwhile{own}",)


def _fit(room: BatchRoom) -> bool:
    """Whether all activations likely fit. Where it is not known what else is in memory, all may be theirs."""
    return room.fixed_bytes + TIMES * (room.used_bytes - room.fixed_bytes) < room.total_bytes
