"""Each distribution checks its arguments, and each value that it is asked about.

## What it sees
Stack samples below `Categorical(...)`, `Normal(...)` and the like, and below `log_prob`, that met
`torch.distributions` at its checks: that probabilities are positive and add up to one, that a scale is
positive, that a value lies in the support. They are on unless told otherwise, take several small operators
each, and read the answer. On a batch that is nothing; of single states, as in the rollouts of reinforcement
learning, they can take as long as the model does. On a device each of them waits for it.

## By hand
    torch.distributions.Distribution.set_default_validate_args(False)     # once, before training

    policy = Categorical(logits=logits, validate_args=False)              # or for one of them

## When not
While you look for the cause of NaN: with the checks, the first line that makes one raises an error. Where a
script catches that error to go on, it is part of training.
"""

from __future__ import annotations

from perfdoctor.facts.host.distribution_checks import DistributionCheckFacts
from perfdoctor.model.change import Effort, Estimate, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LineCost, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step: what no verdict calls worthwhile is not worth losing a check for
SEEN = 10  # samples in checks: of fewer, a third may be chance
# Of what samples saw, what goes at worst and at best. Checks are the shortest and deepest calls of a step: a
# sample is lost where the stack changes while it is read, so it is checks that are seen too seldom. They were
# 11 % (on cores that others had as well) to 18 % of samples where checks took 18 % to 20 % of the time.
SEEN_OF = (0.75, 1.5)
SHOWN = 3  # lines named


@tip(
    title="Do not have distributions check their arguments",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def validated_distributions(run: RunFacts, step: StepFacts, checks: DistributionCheckFacts) -> Advice | None:
    """Advises validate_args=False where checks take a noticeable share of the step."""
    gone = _gone(run, checks)
    if gone.likely < NOTICEABLE or checks.samples < SEEN:
        return None
    ms = checks.share * step.mean_s * 1e3
    return Advice(
        because=(
            f"{checks.share:.0%} of each step ({ms:.2f} ms) checks what distributions are given",
            *map(_said, checks.lines[:SHOWN]),
        ),
        change=removes(gone.low, gone.likely, gone.high),
        at=tuple(line.at for line in checks.lines[:SHOWN]),
        tweak="--no-validate-args",
        code="torch.distributions.Distribution.set_default_validate_args(False)  # once, before training",
        bottleneck=Bottleneck.HOST if run.on_device else None,
    )


def _said(line: LineCost) -> str:
    text = f": `{line.at.text}`" if line.at.text else ""
    return f"what line {line.at.line} gives them takes {line.share:.0%} of the step{text}"


def _gone(run: RunFacts, checks: DistributionCheckFacts) -> Estimate:
    """The share of the step that goes: all of the checks; on a device, no more than it waits for its host."""
    share = checks.share
    low, high = SEEN_OF[0] * share, min(1.0, SEEN_OF[1] * share)
    if not run.on_device:
        return Estimate(low, share, high)
    most = 1.0 if checks.waited is None else checks.waited
    return Estimate(0.0, min(most, share), min(most, high))
