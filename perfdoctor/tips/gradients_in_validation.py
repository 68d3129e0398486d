"""Validation records an autograd graph that is never used.

## What it sees
Modules in eval mode run with gradients recorded, and these passes take a noticeable share of the run.

## By hand
    with torch.no_grad():
        for x, y in validation: ...

## When not
Where gradients are needed in eval mode: adversarial examples, gradient penalties.
"""

from __future__ import annotations

from perfdoctor.facts.steps.events import EvalFacts
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of wall time in such passes
# Of such a pass. Large layers hide the cost of making a graph, small ones do not. On a CPU whatever the graph
# keeps alive takes memory that was not touched before, and first touching a page of 4 KB takes a microsecond
# or so: about as long as filling it with results.
SAVED, SAVED_ON_CPU = (0.05, 0.15, 0.40), (0.05, 0.30, 0.60)


@tip(
    title="Run validation without recording gradients",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def gradients_in_validation(run: RunFacts, step: StepFacts, evals: EvalFacts) -> Advice | None:
    """Advises no_grad where passes in eval mode record gradients."""
    share = min(1.0, evals.grad_seconds_per_step / step.mean_s) if step.mean_s > 0 else 0.0
    if not evals.grad_calls or share < NOTICEABLE:
        return None
    low, likely, high = (share * saved for saved in (SAVED_ON_CPU if run.device == "cpu" else SAVED))
    return Advice(
        because=(
            f"{evals.grad_calls} of {evals.calls} passes in eval mode recorded gradients",
            f"they take {share:.0%} of the training time, and memory for a whole graph",
        ),
        change=Change(pauses=Estimate(low, likely, high)),
        at=(evals.at,) if evals.at else (),
        tweak="--no-grad-eval",
        code="with torch.no_grad():\n    ...  # the validation loop",
    )
