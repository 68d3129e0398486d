"""Gradients are never cleared: each update uses the sum over all steps so far.

## What it sees
At every sampled update, the gradient of a parameter still held the values of the step before, and the
backward pass added to them. This does not make the steps slower; it makes the result wrong.

## By hand
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

## When not
If you sum the gradients of all past steps on purpose, which is rare: unlike momentum, the sum never decays.
Accumulating over a few micro-batches is something else, and is not reported.
"""

from __future__ import annotations

import re

from perfdoctor.facts.script.gradient_clearing import GradientClearingFacts
from perfdoctor.model.change import Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips._repeated import repeated
from perfdoctor.tips.catalogue import tip

ENOUGH = 10  # updates without a clearing, and none with: accumulation over that many is rare, and ends
STEPPING = re.compile(r"([\w.]+)\.step\(")


@tip(
    title="Clear the gradients before each backward pass",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("correctness",),
)
def gradients_never_cleared(step: StepFacts, clearing: GradientClearingFacts) -> Advice | None:
    """Advises zero_grad where no sampled update had cleared gradients."""
    if clearing.kept < ENOUGH or clearing.cleared or clearing.doubtful:
        return None
    update = clearing.update.statement if clearing.update is not None else None
    named = STEPPING.search(update or "")
    backward = repeated(clearing.backward) or "loss.backward()"
    return Advice(
        because=(
            f"at all {clearing.kept} sampled updates, the gradients still held those of earlier steps",
            "this affects the result, not the speed: each update uses the sum of all gradients so far",
        ),
        change=None,
        at=tuple(at for at in (clearing.backward, clearing.update) if at is not None),
        same_result=False,
        code=f"{named[1] if named else 'optimizer'}.zero_grad()\n{backward}",
    )
