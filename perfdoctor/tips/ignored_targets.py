"""Scores of all classes are computed for positions that the loss ignores.

## What it sees
A loss whose targets hold its `ignore_index`: positions of a text that were not masked, the prompt of an
instruction, or padding. A product with a weight of many classes gives the scores, and backward spends a
large part of the step between the loss and the input of that product. A device is never waited for: targets
there are copied behind its work, and its own events time the backward. A small head is left alone: what
calling its operations takes stays, however few positions are picked.

## By hand
Pick the positions that count before the scores are computed:

    counts = labels != -100              # the loss's ignore_index
    logits = head(hidden[counts])
    loss = F.cross_entropy(logits, labels[counts])

The loss is the same, but for rounding: a mean counts the same targets. On a device, picking by a mask waits
for their number once a step; positions that the loader gives with the batch do not.

## When not
`torch.compile` and CUDA graphs want shapes that do not change: pick a fixed number of positions there. Where
the scores of all positions are wanted for something else, compute those only when they are.
"""

from __future__ import annotations

import math

from perfdoctor.facts.script.ignored_targets import IgnoredTargetFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step, likely
# Forward and backward against backward alone: backward has two products where forward has one, and each has
# a softmax that reads and writes about as much. Two models took 1.60 and 1.69 times as long on a CPU, one
# 1.76 times on an H200.
WITH_FORWARD = (1.2, 1.7, 1.9)
PICKING = 0.02  # of what is left out: copying what counts
# What stays of each loss, however few positions count: calling the head's operations, and those that pick
# (bench/ignored_targets.py).
CALLS_S = (0.2e-3, 0.1e-3, 0.05e-3)
# Time between the loss and the product is no work on positions where operations wait: for each other's
# threads, for cores that others use, or on a device for its host. What a slow machine takes bounds the work:
# operations on numbers a second, and seconds for an element of hidden states or scores. On one busy core a
# product's backward did at least 67e9 of the ones, and one of the others took 4 to 14 ns, most where scores
# take 130 MB (bench/ignored_targets.py): a slow machine is taken to do a tenth, and to take twice as long. Of
# devices, a T4 does 8e12 operations and moves 320e9 bytes a second (trace/measure/device_peaks.py): for each
# element, read or written ten times, it takes a third of what is allowed here.
SLOW_FLOPS_PER_S, SLOW_ELEMENT_S, DEVICE_TIMES = 6e9, 28e-9, 80


@tip(
    title="Compute scores only where the loss counts them",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    kernels_only=True,
)
def ignored_targets(run: RunFacts, step: StepFacts, ignored: IgnoredTargetFacts) -> Advice | None:
    """Advises to pick positions before the head, where the loss ignores many of them."""
    work_s = min(ignored.backward_s, _most_work_s(ignored, run.on_device))
    gone_s = ignored.ignored * (1.0 - PICKING) * work_s
    low, likely, high = (
        min(1.0, max(0.0, gone_s * part - calls_s * ignored.losses) / step.mean_s)
        for part, calls_s in zip(WITH_FORWARD, CALLS_S, strict=True)
    )
    if likely < NOTICEABLE or not ignored.at:
        return None
    at_most = "at most " if work_s < ignored.backward_s else ""
    return Advice(
        because=(
            f"the loss ignores {ignored.ignored:.0%} of its targets",
            f"scores of {ignored.classes:,} classes are computed for all of them",
            f"backward spends {at_most}{work_s * 1e3:.2f} ms a step on these scores",
        ),
        change=removes(low, likely, high),
        at=ignored.at,
        code=f"counts = labels != {_value(ignored)}  # the loss's ignore_index\n"
        "logits = head(hidden[counts])\n"
        "loss = F.cross_entropy(logits, labels[counts])",
    )


def _most_work_s(ignored: IgnoredTargetFacts, on_device: bool) -> float:
    """Seconds of backward that work on the scores can take at most; any where its size is not known."""
    if not ignored.rows or not ignored.width:
        return math.inf
    products = 2 * 2 * ignored.rows * ignored.width * ignored.classes  # two of them; multiply, and add
    elements = ignored.rows * (ignored.width + ignored.classes)
    slow_s = products / SLOW_FLOPS_PER_S + elements * SLOW_ELEMENT_S
    return slow_s / DEVICE_TIMES if on_device else slow_s


def _value(ignored: IgnoredTargetFacts) -> str:
    return "ignore_index" if ignored.ignore_index is None else str(ignored.ignore_index)
