"""A module runs twice on the same input in one step, although its parameters have not changed in between.

## What it sees
In steps looked at call by call, two calls of one module had the same arguments, untouched since the first,
the same parameters and the same result; both lines are named. Recomputing inside backward (activation
checkpointing) is not counted, nor are calls that draw random numbers.

## By hand
    output = model(x)                       # once
    loss = criterion(output, y)
    accuracy = (output.detach().argmax(1) == y).float().mean()

## When not
Where keeping the first result costs memory that is not there. Batch normalisation counts each pass: with one
pass its running statistics move half as fast.
"""

from __future__ import annotations

from perfdoctor.analysis.called import RepeatFacts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, Phase, RunFacts, StepFacts

NOTICEABLE = 0.03  # share of the step
MOSTLY = 0.5  # of the looks: what some steps do is no habit of the loop
BACKWARD = 2.0  # times a forward: each product has two gradients
FORWARD = 1 / 3  # of forward and backward together, by the same count


@tip(
    title="Run the module once and use its output twice",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def repeated_forward(run: RunFacts, step: StepFacts, repeats: RepeatFacts) -> Advice | None:
    """One pass instead of two, where the second one cannot give anything new."""
    found = next((one for one in repeats.repeats if one.seen >= MOSTLY), None)
    if found is None or found.share < NOTICEABLE:
        return None
    forward, backward = step.share(Phase.FORWARD), step.share(Phase.BACKWARD)
    low, likely, high = 0.9 * found.share, found.share, found.share
    if found.recording:  # more backward than the remaining passes explain: both results are learnt from
        high += min(max(0.0, backward - BACKWARD * (forward - found.share)), BACKWARD * found.share)
        high = min(1.0, high)
    if run.device != "cpu":  # the host's time for a pass tells which part of the device's work it is
        part = min(1.0, found.share / forward) if forward > 0 else 0.0
        both = part * (forward + backward)
        low, likely, high = FORWARD * both / 2, FORWARD * both, both
    lines = "this line" if found.first == found.again else f"lines {found.first.line} and {found.again.line}"
    seen = f"in {found.seen:.0%} of {repeats.looks} steps looked at"
    return Advice(
        because=(
            f"{found.module} is called twice with the same input, on {lines} ({seen})",
            f"the second pass takes {found.share:.1%} of the step and gives nothing new",
        ),
        change=removes(low, likely, high),
        at=tuple(dict.fromkeys((found.again, found.first))),
        code="output = module(x)  # once; output.detach() for metrics",
    )
