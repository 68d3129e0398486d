"""Several losses go backward through the same graph, one after the other.

## What it sees
In a few steps, the graphs of two backwards in a row are compared node by node: much of the second one was
passed by the first, and what that added to the gradients was still there.

## By hand
    loss = loss_a + loss_b + loss_c
    loss.backward()                      # once; without retain_graph=True

The gradient of a sum is the sum of the gradients: the optimizer gets the same, and what the losses share is
passed once.

## When not
Where the gradients of each loss are needed apart: to compare or project them (gradient surgery), or to clip
each.
"""

from __future__ import annotations

from perfdoctor.facts.script.repeated_backward import RepeatedBackwardFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SEVERAL = 1.5  # backwards in a step
# Of what counting nodes says: those in common, near the input, are as a rule larger than each loss's own.
GONE = (0.5, 1.0)


@tip(
    title="Add up the losses and go backward once",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def repeated_backward(step: StepFacts, repeats: RepeatedBackwardFacts) -> Advice | None:
    """Advises one backward of the sum where several pass through the same graph."""
    passes = step.backwards_per_step
    backward = step.share(Phase.BACKWARD)
    if passes < SEVERAL:
        return None
    again = backward * max(0.0, 1.0 - repeats.batches / passes)  # if those of a batch had all in common
    low, likely = (again * repeats.shared * gone for gone in GONE)
    if likely < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"{passes:.3g} backwards in each step take {backward:.0%} of it",
            f"each backward repeats {repeats.shared:.0%} of the graph that the one before went through",
        ),
        change=removes(low, likely, again),
        at=(repeats.at,) if repeats.at else (),
        code="(loss_a + loss_b).backward()  # once, and without retain_graph=True",
    )
