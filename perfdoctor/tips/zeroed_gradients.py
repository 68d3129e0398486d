"""Gradients are set to zero where they could be set to None.

## What it sees
Calls of `zero_grad(set_to_none=False)` that take a noticeable share of the step.

## By hand
    optimizer.zero_grad()       # sets them to None since torch 2.0: zero_grad(set_to_none=True)

With None, backward stores its gradient directly; with zeros it reads, adds and writes.

## When not
Where your own code reads `.grad` between the steps and cannot handle None. An optimizer skips parameters
without a gradient, and updates those whose gradient is zero (momentum, weight decay): where some parameters
take no part in some steps, results differ.
"""

from __future__ import annotations

from perfdoctor.facts.script.gradient_clearing import GradientZeroingFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.02  # share of the step; less drowns in noise
# Zeroing writes each gradient once; adding to zeros then reads two and writes one, where handing over does
# nothing. If memory is all that counts, both together move four times what zeroing does; where a processor
# reads a line before it writes to it, as most do, two and a half times. At worst the adding is free, and
# gradients that partly stay in caches lie between.
TRAFFIC = (1.0, 1.75, 4.0)
ADDING = 0.5  # of backward at most: its own products cost no less than adding them up


@tip(
    title="Set gradients to None instead of zero",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def zeroed_gradients(run: RunFacts, step: StepFacts, zeroing: GradientZeroingFacts) -> Advice | None:
    """Advises set_to_none where zeroing takes a noticeable share of the step."""
    share = min(1.0, zeroing.seconds_per_step / step.mean_s) if step.mean_s > 0 else 0.0
    if share < NOTICEABLE:
        return None
    low = share if run.device == "cpu" else 0.0  # what the host launches may be hidden behind the device
    adding = ADDING * step.share(Phase.BACKWARD)
    _, likely, high = (share + min((times - 1) * share, adding) for times in TRAFFIC)
    ms = zeroing.seconds_per_step * 1e3
    text = zeroing.at.statement if zeroing.at is not None else None
    return Advice(
        because=(
            f"setting gradients to zero takes {ms:.2f} ms per step, {share:.1%} of the step",
            f"{zeroing.calls_per_step:.1f} calls per step; backward then adds to zeros, which costs time",
        ),
        change=removes(low, min(1.0, likely), min(1.0, high)),
        at=(zeroing.at,) if zeroing.at is not None else (),
        tweak="--zero-grad-none",
        code=_without_zeros(text),
    )


def _without_zeros(text: str | None) -> str:
    """The user's own line without the argument, if the line contains it."""
    if text is None or "set_to_none=False" not in text:
        return "optimizer.zero_grad(set_to_none=True)"
    return text.replace("set_to_none=False", "set_to_none=True")
