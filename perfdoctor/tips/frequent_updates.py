"""Updating the parameters takes about as long as computing their gradients.

## What it sees
The optimizer takes a large share of the step, each update follows few samples, and the optimizer is already
as fast as its options allow: what is left is to update less often. On a device the update is what its kernels
take.

## By hand
    loss = criterion(model(x), y) / 4
    loss.backward()
    if step % 4 == 3:                # gradient clipping, schedules and weight averages belong here, too
        optimizer.step()
        optimizer.zero_grad()

## When not
Each update then sees N times as many samples: training takes another path, and the learning rate may have to
change. If memory allows, a batch N times as large does the same and is faster still.
"""

from __future__ import annotations

from perfdoctor.facts.script.model_and_optimizers import OptimizerFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.units import every
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.15  # share of the step: below it, four accumulated batches save less than a tenth
SMALL = 32  # samples an update; up to here batches are called small (Masters and Luschi, arXiv 1804.07612)
TOGETHER = (2, 4, 8)  # backwards for each update: at worst, likely, at best
USUAL = 4


@tip(
    title="Accumulate gradients and update less often",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def frequent_updates(step: StepFacts, optimizers: OptimizerFacts) -> Advice | None:
    """Advises accumulation where the update takes a large part of a step of few samples."""
    share = optimizers.share(step)
    samples = step.samples_per_s * step.mean_s if step.samples_per_s else None
    if share < NOTICEABLE or samples is None or samples > SMALL:
        return None
    if any(one.fusable for one in optimizers.optimizers):
        return None  # the fix that leaves training unchanged comes first
    largest = max(optimizers.optimizers, key=lambda one: one.elements)
    low, likely, high = (share * (1 - 1 / count) for count in TOGETHER)
    each = f"{largest.elements:,} parameters after " + every(samples, "sample")
    return Advice(
        because=(
            f"{share:.0%} of the step is the update of {each}",
            f"one update per {USUAL} backward passes would take {share / USUAL:.0%}",
        ),
        change=removes(low if optimizers.is_sure else 0.0, likely, high),
        at=(largest.at,) if largest.at else (),
        tweak=f"--accumulate {USUAL}" if len(optimizers.optimizers) == 1 else None,  # whose turn is it?
        same_result=False,
        code=f"(loss / {USUAL}).backward()\nif step % {USUAL} == {USUAL - 1}:\n"
        "    ...  # clip gradients here\n    optimizer.step()\n    optimizer.zero_grad()\n"
        "    ...  # the schedule and averages of the weights here",
        arguments=f"gradient_accumulation_steps={USUAL}",
    )
