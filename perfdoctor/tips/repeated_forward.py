"""A module runs twice on the same input in one step, although its parameters do not change in between.

## What it sees
In steps sampled call by call, two calls of one module had the same unmodified arguments, the same parameters
and the same result; both lines are named. Calls that draw random numbers, as with dropout, count where both
record gradients, backward goes through one of them only, and the source does not show that the update needs
the values of the other. Recomputation inside backward (activation checkpointing) does not count.

## By hand
    output = model(x)                       # once
    loss = criterion(output, y)
    accuracy = (output.detach().argmax(1) == y).float().mean()

## When not
Where there is not enough memory to keep the first result. Where the second pass has to draw other random
numbers, as a target does: then run it under `torch.no_grad()`. Batch normalisation updates its running
statistics in each pass: with one pass they adapt half as fast.
"""

from __future__ import annotations

from perfdoctor.facts.script.module_calls import Repeat, RepeatedCallFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.03  # share of the step
MOSTLY = 0.5  # of the sampled steps: fewer are exceptions
BACKWARD = 2.0  # times a forward: each product has two gradients
FORWARD = 1 / 3  # of forward and backward together, by the same count


@tip(
    title="Run the module once and reuse its output",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def repeated_forward(run: RunFacts, step: StepFacts, repeats: RepeatedCallFacts) -> Advice | None:
    """Advises one pass instead of two where the second repeats the first."""
    modules = (one for one in repeats.repeats if not one.parametrizes)
    repeat = next((one for one in modules if one.seen >= MOSTLY), None)
    if repeat is None or repeat.share < NOTICEABLE:
        return None
    forward, backward = step.share(Phase.FORWARD), step.share(Phase.BACKWARD)
    low, likely, high = 0.9 * repeat.share, repeat.share, repeat.share
    if (
        repeat.recording and not repeat.by_chance
    ):  # more backward than the other passes explain: both are in the loss
        high += min(max(0.0, backward - BACKWARD * (forward - repeat.share)), BACKWARD * repeat.share)
        high = min(1.0, high)
    if run.device != "cpu":  # the host's time for a pass tells which part of the device's work it is
        part = min(1.0, repeat.share / forward) if forward > 0 else 0.0
        both = part * (forward + backward)
        most = both / (1 + BACKWARD * (1 - part)) if repeat.by_chance else both  # backward stays
        low, likely, high = FORWARD * both / 2, FORWARD * both, most
    first, again = repeat.first, repeat.again
    lines = "this line" if first == again else f"lines {first.line} and {again.line}"
    seen = f"in {repeat.seen:.0%} of {repeats.samples} sampled steps"
    return Advice(
        because=(
            f"{repeat.module} is called twice with the same input, on {lines} ({seen})",
            f"the second pass takes {repeat.share:.1%} of the step and {_in_vain(repeat)}",
        ),
        change=removes(low, likely, high),
        at=tuple(dict.fromkeys((repeat.again, repeat.first))),
        code="output = module(x)  # once; output.detach() for metrics",
    )


def _in_vain(repeat: Repeat) -> str:
    if repeat.by_chance:
        return "differs by chance only, as by dropout; backward does not use its result"
    return "repeats the same result"
