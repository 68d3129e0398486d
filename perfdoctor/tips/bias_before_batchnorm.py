"""Convolutions add a bias that the batch normalisation after them subtracts again.

## What it sees
In steps sampled call by call, the output of a convolution with a bias went into a batch normalisation in
train mode; the number of elements in that output gives the cost of the bias and its gradient.

## By hand
    nn.Conv2d(64, 128, 3, bias=False)      # nn.BatchNorm2d(128) has its own bias

## When not
If something else uses the convolution's output as well. In a trained checkpoint, subtract the bias from the
`running_mean` of the normalisation after it, or evaluation changes. The gain is small: worth it in a new
model.
"""

from __future__ import annotations

from perfdoctor.facts.script.module_calls import BiasFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.005  # share of the step, at best: below it no trial could show a difference
BYTES = 4  # of an element
# What one pass over memory takes: a core streams about 10 GB/s; devices that train 0.5 to 3 TB/s.
BYTES_PER_S = {"cpu": 10e9}
DEVICE_BYTES_PER_S = 1e12
# Passes over the outputs: none where the bias rides along with the product and its gradient (on the CPU no
# difference could be measured in small networks), one for reading the gradient, three where the forward
# pass reads and writes them once more.
PASSES = {"cpu": (0.0, 0.1, 1.0)}
DEVICE_PASSES = (0.0, 1.0, 3.0)
SHOWN = 5


@tip(
    title="Drop the bias of convolutions before batch normalisation",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "convolutional"),
)
def bias_before_batchnorm(step: StepFacts, biases: BiasFacts) -> Advice | None:
    """Advises bias=False where the bias costs enough to be measured."""
    pass_s = biases.elements * BYTES / BYTES_PER_S.get(biases.device, DEVICE_BYTES_PER_S)
    each = PASSES.get(biases.device, DEVICE_PASSES)
    low, likely, high = (min(1.0, passes * pass_s / step.mean_s) if step.mean_s else 0.0 for passes in each)
    if high < NOTICEABLE:
        return None
    paths = [path for path, _ in biases.layers if path]
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return Advice(
        because=(
            f"batch normalisation removes the bias of {', '.join(paths[:SHOWN])}{more}",
            f"{biases.count:.0f} such calls per step write {biases.elements / 1e6:,.1f} million elements",
        ),
        change=removes(low, likely, high),
        at=tuple(dict.fromkeys(at for _, at in biases.layers if at))[:SHOWN],
        tweak="--drop-conv-bias",
        same_result=False,
        code="nn.Conv2d(..., bias=False)",
    )
