"""Backward computes gradients of parameters that no optimizer updates.

## What it sees
Parameters that get gradients from the loss, belong to no optimizer or to a group whose learning rate is 0,
and did not change between two sampled steps.

## By hand
    model.backbone.requires_grad_(False)      # once, before training
    # or: with torch.no_grad(): features = backbone(images)

    # and without these parameters in the optimizer: a learning rate of 0 computes all, and moves nothing

    # a model of its own, such as a teacher: with torch.no_grad(): targets = teacher(images)

Backward then ends where the trained part begins, and forward keeps nothing in memory for the rest.

## When not
Where the gradients are read for something else: their norm, a saliency map, a penalty. If these parameters
should be trained, the mistake is another one: pass them to the optimizer.
"""

from __future__ import annotations

from perfdoctor.facts.script.unused_gradients import UnusedGradientFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.05  # share of the step, likely
# Of the part of backward that leads nowhere else, which is counted in nodes: they do not all cost the same.
GONE = (0.4, 0.9, 1.0)
# Beside trained parameters a layer's gradient has to pass on: only the half for its own weights goes.
WEIGHTS = 0.5
OF_A_PART = "model.backbone.requires_grad_(False)  # each part that is not trained, before training"
OF_ITS_OWN = "with torch.no_grad():  # around this call, where its inputs need no gradients either"


@tip(
    title="Freeze parameters that are not trained",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    saves=("time", "memory"),
)
def unused_gradients(step: StepFacts, orphans: UnusedGradientFacts) -> Advice | None:
    """Advises requires_grad_(False) where backward works for parameters that are never updated."""
    backward = step.share(Phase.BACKWARD)
    beside = max(0.0, orphans.of_elements - orphans.needless) * WEIGHTS
    low, likely, high = (
        backward * min(1.0, gone * (orphans.needless + part * beside))
        for gone, part in zip(GONE, (0.0, 0.5, 1.0), strict=True)
    )
    if likely < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"{orphans.elements:,} parameters get gradients in backward, but {_unmoved(orphans)}",
            f"{orphans.of_elements:.0%} of those with gradients; backward takes {backward:.0%} of the step",
            f"{orphans.needless:.0%} of backward's operations serve only these",
        ),
        change=removes(low, likely, high),
        at=tuple(at for at in (orphans.called_at, orphans.at) if at is not None),
        code=OF_ITS_OWN if orphans.called_at is not None else OF_A_PART,
    )


def _unmoved(orphans: UnusedGradientFacts) -> str:
    if orphans.at_rest == orphans.elements:
        return "their learning rate is 0"
    return "belong to no optimizer" + (", or their learning rate is 0" if orphans.at_rest else "")
