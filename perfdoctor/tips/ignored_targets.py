"""Scores of all classes are computed for positions that the loss ignores.

## What it sees
A loss whose targets hold its `ignore_index`: positions of a text that were not masked, the prompt of an
instruction, or padding. A product with a weight of many classes gives the scores, and backward spends a
large part of the step between the loss and the input of that product. A device is never waited for: targets
there are copied behind its work, and its own events time the backward.

## By hand
Pick the positions that count before the scores are computed:

    counts = labels != -100
    logits = head(hidden[counts])
    loss = F.cross_entropy(logits, labels[counts])

The loss is the same, but for rounding: a mean counts the same targets. On a device, picking by a mask waits
for their number once a step; positions that the loader gives with the batch do not.

## When not
`torch.compile` and CUDA graphs want shapes that do not change: pick a fixed number of positions there. Where
the scores of all positions are wanted for something else, compute those only when they are.
"""

from __future__ import annotations

from perfdoctor.facts.script.ignored_targets import IgnoredTargetFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step, likely
# Forward and backward against backward alone: backward has two products where forward has one, and each has
# a softmax that reads and writes about as much. Two models took 1.60 and 1.69 times as long on a CPU, one
# 1.76 times on an H200.
WITH_FORWARD = (1.2, 1.7, 1.9)
PICKING = 0.02  # of what is left out: copying what counts


@tip(
    title="Compute scores only where the loss counts them",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    kernels_only=True,
)
def ignored_targets(step: StepFacts, ignored: IgnoredTargetFacts) -> Advice | None:
    """Advises to pick positions before the head, where the loss ignores many of them."""
    gone = ignored.ignored * (1.0 - PICKING) * ignored.backward_s / step.mean_s
    low, likely, high = (min(1.0, gone * part) for part in WITH_FORWARD)
    if likely < NOTICEABLE or not ignored.at:
        return None
    return Advice(
        because=(
            f"the loss ignores {ignored.ignored:.0%} of its targets",
            f"scores of {ignored.classes:,} classes are computed for all of them",
            f"backward spends {ignored.backward_s * 1e3:.2f} ms a step on these scores",
        ),
        change=removes(low, likely, high),
        at=ignored.at,
        code="counts = labels != -100  # the loss's ignore_index\n"
        "logits = head(hidden[counts])\n"
        "loss = F.cross_entropy(logits, labels[counts])",
    )
