"""Autocast is on where it should not be, or float16 gradients are not scaled.

## What it sees
In the sampled steps: a `with` of autocast around the line that goes backward; float16 autocast without a
GradScaler; or autocast around a model whose trained parameters are already float16.

## By hand
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()          # outside the with block
    scaler.step(optimizer)
    scaler.update()

## When not
bfloat16 needs no scaling. A loss that the script scales by itself is not detected.
"""

from __future__ import annotations

from perfdoctor.facts.script.model_and_optimizers import ModelFacts
from perfdoctor.facts.script.module_calls import PrecisionFacts
from perfdoctor.model.change import Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip

HALF = 0.5  # of the parameters that are trained


@tip(
    title="Use autocast in the forward pass only, and scale float16 gradients",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("correctness",),
)
def autocast_misused(precision: PrecisionFacts, model: ModelFacts) -> Advice | None:
    """Names each misuse of autocast: a risk for the result more than for speed."""
    because = []
    if precision.in_backward is not None and precision.autocast_at is not None:  # else a library's own
        because.append(
            f"autocast ({precision.in_backward}) is still on in the backward pass: torch advises against it"
        )
    if precision.autocast == "float16" and not precision.scaled:
        because.append("autocast computes in float16 without a GradScaler: small gradients underflow to 0")
    if precision.autocast is not None and model.float16_trained >= HALF:
        because.append(
            f"autocast is on, although {model.float16_trained:.0%} of what is trained is already float16"
        )
    if not because:
        return None
    places = (precision.autocast_at, precision.at)
    backward = "scaler.scale(loss).backward()" if precision.autocast == "float16" else "loss.backward()"
    return Advice(
        because=tuple(because),
        change=None,
        at=tuple(at for at in places if at is not None),
        same_result=False,
        code=f"with torch.autocast(...):\n    loss = criterion(model(x), y)\n{backward}  # outside",
    )
