"""Gradients are never cleared: each update uses the sum of all steps so far.

## What it sees
At every update that was looked at, the gradient of a parameter still held what the step before had left in
it, and the backward pass added to it. The steps are not slower for it; what they learn is not what was meant.

## By hand
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

## When not
Summing the gradients of all past steps on purpose is a method hardly anybody uses: momentum forgets, this
does not. Accumulating over a few micro-batches is another thing, and raises no finding.
"""

from __future__ import annotations

import re

from perfdoctor.analysis.gradients import ClearingFacts
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort
from perfdoctor.model import Advice, Bottleneck, StepFacts

ENOUGH = 10  # updates without a clearing, and none with: accumulation over as many is rare, and ends
STEPPING = re.compile(r"([\w.]+)\.step\(")


@tip(
    title="Clear the gradients before each backward",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
)
def gradients_never_cleared(step: StepFacts, clearing: ClearingFacts) -> Advice | None:
    """zero_grad, where no update that was looked at had it."""
    if clearing.kept < ENOUGH or clearing.cleared or clearing.doubtful:
        return None
    update = clearing.update.text if clearing.update is not None else None
    named = STEPPING.search(update or "")
    backward = clearing.backward.text if clearing.backward is not None else None
    return Advice(
        because=(
            f"at all {clearing.kept} updates looked at, the gradients of earlier steps were still there",
            "this is about the result, not about speed: each update follows the sum of all gradients so far",
        ),
        change=None,
        at=tuple(at for at in (clearing.backward, clearing.update) if at is not None),
        same_result=False,
        code=f"{named[1] if named else 'optimizer'}.zero_grad()\n{backward or 'loss.backward()'}",
    )
