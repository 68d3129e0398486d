"""A part of the model is computed for a loss whose weight is zero.

## What it sees
In the last two or more of the steps that are sampled call by call, the gradients that came back to what some
module had returned were zeros and nothing else, while others got some. So neither its forward nor its
backward changed anything. On a CPU only: elsewhere, looking at gradients would mean to wait for the device.

Typical cases: an auxiliary loss whose weight was annealed to zero, or is zero in the configuration; a term
that is multiplied by a mask or a switch; a hinge that every example satisfies.

## By hand
    loss = main_loss
    if weight > 0:
        loss = loss + weight * auxiliary_loss(decoder(features))

A product with zero is a gradient of zeros, which is computed like any other.

## When not
Where the part's output is used for something else, such as a picture of it: compute that without gradients,
and as seldom as it is looked at. Where it is meant to learn, what is wrong lies between it and the loss:
units that died, or a hinge that no example violates any more. Parameters that only this loss trains then
have no gradient instead of one of zeros: momentum and weight decay no longer move them, and running
statistics of batch normalisation stay. DistributedDataParallel wants to know of such parameters:
`find_unused_parameters`, or freeze them.
"""

from __future__ import annotations

from perfdoctor.facts.script.zero_weight_losses import ZeroWeightLossFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the run, likely
ALL = 0.95  # of the calls: a training in which nothing gets gradients has another problem
# Backward's part is taken to be that of forward. Other modules need no gradient of their input, and what the
# loss itself computes is in no module: how far it may be off.
BACKWARD_LOW, BACKWARD_HIGH = 0.6, 1.3
SHOWN = 3  # lines
MEANT = "if it is meant to learn, it does not: look at what lies between it and the loss (dead units?)"


@tip(
    title="Leave out what has no weight in the loss",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    before=("uncompiled-model",),
)
def zero_weight_losses(step: StepFacts, losses: ZeroWeightLossFacts) -> Advice | None:
    """Advises a condition around parts to which nothing but zeros comes back."""
    backward = step.share(Phase.BACKWARD)
    forward = min(losses.share, 1.0 - backward)
    if losses.of_called > ALL:
        return None
    behind = backward * losses.of_called
    part = losses.part
    low = part.low * (forward + BACKWARD_LOW * behind)
    likely = part.likely * (forward + behind)
    high = part.high * (forward + min(backward, BACKWARD_HIGH * behind))
    if likely < NOTICEABLE:
        return None
    seen = f"in the last {losses.zeros} of {losses.samples} sampled steps"
    whole = part.low >= 1.0 - NOTICEABLE
    ms = (forward + behind) * step.mean_s * 1e3
    return Advice(
        because=(
            f"only zeros come back to what {losses.module} returns, {seen}",
            f"it takes about {forward + behind:.0%} of such a step ({ms:.1f} ms), backward included",
            f"so it is in {'the whole run' if whole else f'{part.low:.0%} to {part.high:.0%} of the run'}",
            MEANT,
        ),
        change=removes(low, likely, high),
        at=losses.at[:SHOWN],
        code="if weight > 0:  # zero times a loss is computed like any other\n"
        "    loss = loss + weight * auxiliary_loss(part(features))",
    )
