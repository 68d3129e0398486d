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
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step, likely
# Of the part of backward that leads nowhere else. It is counted twice: in nodes, which do not all cost the
# same, and in elements of the weights that they compute with, which tell more of what products cost. In three
# measured cases 0.75, 0.79 and 0.69 of backward went: nodes said 0.47, 0.53 and 0.54, elements 0.84, 0.81 and
# 0.75.
GONE = (0.7, 1.0, 1.0)
OF_WEIGHTS = 2 / 3
MORE = 0.1  # at best: forward keeps nothing for it
# Beside trained parameters a layer's gradient has to pass on: only the half for its own weights goes.
WEIGHTS = 0.5
OF_A_PART = "model.backbone.requires_grad_(False)  # each part that is not trained, before training"
OF_ITS_OWN = "with torch.no_grad():  # around this call, where its inputs need no gradients either"


@tip(
    title="Freeze parameters that are not trained",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def unused_gradients(step: StepFacts, orphans: UnusedGradientFacts) -> Advice | None:
    """Advises requires_grad_(False) where backward works for parameters that are never updated."""
    backward = step.share(Phase.BACKWARD)
    apart = max(orphans.needless, orphans.apart or 0.0)
    beside = max(0.0, orphans.of_elements - apart) * WEIGHTS
    low, likely, high = (
        backward * min(1.0, gone * needless + part * beside)
        for gone, needless, part in zip(GONE, _needless(orphans), (0.0, 0.5, 1.0), strict=True)
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
        at=tuple(at for at in (orphans.called_at, *orphans.part_at, orphans.at) if at is not None),
        code=OF_ITS_OWN if orphans.called_at is not None else OF_A_PART,
    )


def _needless(orphans: UnusedGradientFacts) -> tuple[float, float, float]:
    """Low, likely and high share of backward that serves these parameters only."""
    by_nodes = orphans.needless
    by_weights = by_nodes if orphans.apart is None or by_nodes == 0 else orphans.apart
    most = max(by_nodes, by_weights)
    likely = by_nodes + OF_WEIGHTS * (most - by_nodes)
    return min(by_nodes, by_weights), likely, min(1.0, most + MORE) if most else 0.0


def _unmoved(orphans: UnusedGradientFacts) -> str:
    if orphans.at_rest == orphans.elements:
        return "their learning rate is 0"
    return "belong to no optimizer" + (", or their learning rate is 0" if orphans.at_rest else "")
