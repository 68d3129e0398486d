"""Derivatives of one output by several inputs are taken one call of `autograd.grad` after another.

## What it sees
In a few steps, each call of `torch.autograd.grad` by data is noted: the same output is derived several times,
by other inputs each time. Every call goes back from the output to the inputs, and with `create_graph=True`
each leaves a graph of its own, which the backward of the loss goes through again.

## By hand
    u_x, u_y, u_t = torch.autograd.grad(u, (x, y, t), torch.ones_like(u), create_graph=True)

One call goes the way once, and hands out the gradient by each input. The results are the same.

## When not
Where calls differ in `grad_outputs`. Several rows of a Jacobian (the same input each time, or another output)
need a call each: there `is_grads_batched=True` or `torch.func.jacrev` take them together.
"""

from __future__ import annotations

from perfdoctor.facts.script.separate_derivatives import SeparateDerivativesFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
# Going back through a part of the graph takes about as long for each second that it took to compute; through
# derivatives longer, as a rule: of two networks, 0.8 and 1.2 of what that tells went.
GONE = (0.7, 1.0, 1.3)


@tip(
    title="Take the derivatives of one output in one call",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def separate_derivatives(step: StepFacts, derivatives: SeparateDerivativesFacts) -> Advice | None:
    """Advises one call of autograd.grad for all inputs where an output is derived by each on its own."""
    backward = step.share(Phase.BACKWARD)
    calls = backward * derivatives.share
    again = min(calls, backward * derivatives.again_share)
    computed = step.share(Phase.FORWARD) + calls
    through = (backward - calls) * again / computed if derivatives.through and computed > 0 else 0.0
    low, likely, high = (min(1.0, (again + through) * gone) for gone in GONE)
    if likely < NOTICEABLE:
        return None
    told = f"{derivatives.calls:.3g} calls of autograd.grad in each step"
    return Advice(
        because=(
            f"{told}; {derivatives.again:.3g} repeat the way of another, from the same output",
            f"what they repeat takes {again:.0%} of the step, and going back through it {through:.0%}",
        ),
        change=removes(low, likely, high),
        at=derivatives.at,
        code="u_x, u_t = torch.autograd.grad(u, (x, t), torch.ones_like(u), create_graph=True)",
    )
