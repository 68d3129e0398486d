"""Autocast is on where it should not be, or 16-bit gradients are not protected.

## What it sees
In steps looked at: autocast still on where backward begins; float16 autocast with no GradScaler in sight; or
autocast around a model whose parameters are float16 already.

## By hand
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()          # outside the with
    scaler.step(optimizer)
    scaler.update()

## When not
bfloat16 needs no scaling. A loss that the script scales by hand is not seen.
"""

from __future__ import annotations

from perfdoctor.analysis.built import ModelFacts
from perfdoctor.analysis.called import PrecisionFacts
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort
from perfdoctor.model import Advice, Bottleneck

HALF = 0.5  # of the parameters


@tip(
    title="Keep autocast to the forward pass, and scale float16",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
)
def autocast_misused(precision: PrecisionFacts, model: ModelFacts) -> Advice | None:
    """What is wrong around autocast: a risk for the result more than for the time."""
    because = []
    if precision.in_backward is not None:
        because.append(
            f"autocast ({precision.in_backward}) is still on where backward begins: torch advises against it"
        )
    if precision.autocast == "float16" and not precision.scaled:
        because.append("autocast computes in float16 without a GradScaler: small gradients become 0")
    if precision.autocast is not None and model.float16 >= HALF:
        because.append(f"autocast is on, and {model.float16:.0%} of the parameters are float16 already")
    if not because:
        return None
    places = (precision.autocast_at, precision.at)
    return Advice(
        because=tuple(because),
        change=None,
        at=tuple(at for at in places if at is not None),
        same_result=False,
        code="with torch.autocast(...):\n    loss = criterion(model(x), y)\nloss.backward()  # outside",
    )
