"""Several backwards of one step go through the same graph: of several losses, or of the same loss twice.

## What it sees
In a few steps, two backwards in a row are compared. Of several losses, the graphs are compared node by node:
much of the second one was passed by the first, and what that added to the gradients was still there. Of one
loss, what the two are asked for is compared: where no parameter changed between and neither makes a graph of
its own, one that is asked for no other gradients computes them twice.

## By hand
    loss = loss_a + loss_b + loss_c
    loss.backward()                      # once; without retain_graph=True

The gradient of a sum is the sum of the gradients: the optimizer gets the same, and what the losses share is
passed once.

    loss.backward()                      # instead of torch.autograd.grad(loss, parameters) before it
    norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
    clip_grad_norm_(model.parameters(), 1.0)

What `torch.autograd.grad` hands out is what `backward` leaves in `p.grad`, until it is clipped.

## When not
Where the gradients of each loss are needed apart: to compare or project them (gradient surgery), or to clip
each. Where hooks act differently in each of the two passes.
"""

from __future__ import annotations

from perfdoctor.facts.script.repeated_backward import RepeatedBackwardFacts, RepeatedPass
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SEVERAL = 1.5  # backwards in a step
# Of what counting nodes says: those in common, near the input, are as a rule larger than each loss's own.
GONE = (0.5, 1.0)
# Of what a few passes took. A pass that finds less in caches takes longer, be it the one that goes or stays.
PASS_GONE = (0.8, 1.0, 1.3)


@tip(
    title="Go backward once",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def repeated_backward(step: StepFacts, repeats: RepeatedBackwardFacts) -> Advice | None:
    """Advises one backward where several pass through the same graph."""
    again = _of_one_loss(step, repeats.same, repeats.batches) if repeats.same is not None else None
    return again or _of_several_losses(step, repeats)


def _of_one_loss(step: StepFacts, same: RepeatedPass, batches: float) -> Advice | None:
    """One pass of two from the same loss goes."""
    passes = step.backwards_per_step
    each = min(max(0.0, passes - batches), 1.0)  # in a step: gradients that are there already grow to a sum
    spent = each * same.seconds + (passes - each) * same.other_s
    gone = step.share(Phase.BACKWARD) * each * same.seconds / spent if spent > 0 else 0.0
    if gone < NOTICEABLE:
        return None
    low, likely, high = (min(1.0, gone * part) for part in PASS_GONE)
    called = "a backward" if same.adds else "a call of torch.autograd.grad"
    return Advice(
        because=(
            f"{called} takes {gone:.0%} of the step, and computes only what another pass computes too",
            "both go back from the same loss, by the same parameters, and no parameter changes between them",
        ),
        change=removes(low, likely, high),
        at=(same.at,) if same.at else (),
        code=_code(same),
    )


def _code(same: RepeatedPass) -> str:
    if not (same.adds or same.other_adds):
        return "gradients = torch.autograd.grad(loss, parameters)  # once, and used wherever they are needed"
    return (
        f"loss.backward()  # once{'' if same.adds else '; no torch.autograd.grad'}\n"
        "norms = [p.grad.norm() for p in parameters]  # before clipping"
    )


def _of_several_losses(step: StepFacts, repeats: RepeatedBackwardFacts) -> Advice | None:
    """Those of several losses become one of their sum."""
    passes = step.backwards_per_step
    backward = step.share(Phase.BACKWARD)
    if passes < SEVERAL:
        return None
    again = backward * max(0.0, 1.0 - repeats.batches / passes)  # if those of a batch had all in common
    low, likely = (again * repeats.shared * gone for gone in GONE)
    if likely < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"{passes:.3g} backwards in each step take {backward:.0%} of it",
            f"each backward repeats {repeats.shared:.0%} of the graph that the one before went through",
        ),
        change=removes(low, likely, again),
        at=(repeats.at,) if repeats.at else (),
        code="(loss_a + loss_b).backward()  # once, and without retain_graph=True",
    )
