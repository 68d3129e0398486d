"""A GradScaler leaves out updates again and again, and what their steps computed teaches the model nothing.

## What it sees
Long after the scale of the losses has settled, a share of the updates is still left out because gradients
held infinities or NaN. The passes of such a step were computed in vain.

## By hand
    with torch.autocast("cuda", dtype=torch.bfloat16):    # has the range of float32: no scaler
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()

Where the device has no bfloat16, look at what overflows: a learning rate that is too high, a loss that is
summed instead of averaged, a `growth_interval` that raises the scale too often.

## When not
A scaler tries a larger scale every 2,000 updates and leaves out one when it is too large: so it works.
bfloat16 keeps fewer digits than float16: compare the loss. With optimizers that are `fused`, torch leaves out
the update on the device, and this tip does not see it.
"""

from __future__ import annotations

from perfdoctor.facts.script.module_calls import PrecisionFacts
from perfdoctor.facts.script.skipped_updates import SkippedUpdateFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.05  # of the updates; a scaler that works leaves out one in 2,000
ENOUGH = 100  # updates that were seen: fewer may all be those of one difficult stretch
SEVERAL = 10  # that were left out
BROKEN = 0.5  # of the updates: more are no matter of speed, the gradients are hardly ever finite
SURE = 0.5  # of what is left out: bfloat16 may take more updates to come as far


@tip(
    title="Train in bfloat16, where a GradScaler leaves out many updates",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "correctness"),
)
def skipped_updates(skipped: SkippedUpdateFacts, precision: PrecisionFacts) -> Advice | None:
    """Advises another number type, or a look at the scale, where many updates are left out."""
    share = skipped.share
    if share <= NOTICEABLE or skipped.updates < ENOUGH or skipped.skipped < SEVERAL:
        return None
    places = (precision.autocast_at, precision.at)
    broken = "gradients are hardly ever finite: look for a loss that is NaN, or a learning rate too high"
    in_vain = "what these steps computed is thrown away"
    counted = f"{skipped.skipped:,} of {skipped.updates:,} updates ({share:.0%})"
    return Advice(
        because=(
            f"the GradScaler left out {counted}, those at the beginning not counted",
            broken if share > BROKEN else in_vain,
        ),
        change=None if share > BROKEN else removes(SURE * share, share, share),
        at=tuple(at for at in places if at is not None),
        same_result=False,
        code=f'with torch.autocast("{precision.device}", dtype=torch.bfloat16):  # no GradScaler\n    ...',
    )
