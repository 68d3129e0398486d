"""Validation records a graph for gradients that nobody asks for.

## What it sees
Modules in eval mode run with gradients recorded, and it takes a visible share of the run.

## By hand
    with torch.no_grad():
        for x, y in validation: ...

## When not
Where gradients are taken in eval mode on purpose: adversarial examples, gradient penalties.
"""

from __future__ import annotations

from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, EvalFacts, RunFacts, StepFacts

NOTICEABLE = 0.05  # share of wall time in such passes
# Of such a pass. Large layers hide what a graph costs to make, small ones do not. On a CPU whatever the graph
# keeps alive takes memory that was not touched before, and first touching a page of 4 KB takes a microsecond
# or so: about as long as filling it with results.
SAVED, SAVED_ON_CPU = (0.05, 0.15, 0.40), (0.05, 0.30, 0.60)


@tip(
    title="Run validation without gradients",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def gradients_in_validation(run: RunFacts, step: StepFacts, evals: EvalFacts) -> Advice | None:
    """no_grad, where eval-mode passes record gradients."""
    share = min(1.0, evals.grad_seconds_per_step / step.mean_s) if step.mean_s > 0 else 0.0
    if not evals.grad_calls or share < NOTICEABLE:
        return None
    low, likely, high = (share * saved for saved in (SAVED_ON_CPU if run.device == "cpu" else SAVED))
    return Advice(
        because=(
            f"{evals.grad_calls} of {evals.calls} passes in eval mode recorded gradients",
            f"they take {share:.0%} of the training time, and the memory of a whole graph",
        ),
        change=removes(low, likely, high),
        at=(evals.at,) if evals.at else (),
        tweak="--no-grad-eval",
        code="with torch.no_grad():\n    ...  # the validation loop",
    )
