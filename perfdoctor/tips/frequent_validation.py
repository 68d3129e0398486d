"""Validation takes a large share of the run.

## What it sees
Several validations between the updates, that is passes in eval mode and the waits for their batches, take a
large share of the time from the first step to the last.

## By hand
    if step % (4 * interval) == 0:
        validate(model)

or validate on a fixed sample, and on the whole set at the end.

## When not
Where early stopping or a schedule needs recent validation results. If you validate less often, run it after
each validation only. Where a model in eval mode generates its own training data (reinforcement learning,
pseudo-labels), its passes are not validation. Where validation generates text without a key/value cache, that
comes first (`repeated-prefixes`): what it spares is not counted here.
"""

from __future__ import annotations

import re

from perfdoctor.facts.script.validation import ValidationFacts
from perfdoctor.facts.steps.events import EvalFacts
from perfdoctor.facts.user_source.update_dependence import Dependence
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.units import count, every
from perfdoctor.tips._repeated import repeated
from perfdoctor.tips._words import is_about
from perfdoctor.tips.catalogue import Checked, tip

# Share of wall time. A forward pass is a third of a step: validating on a fifth of the data after each epoch
# takes 6 %, and on twice as much 12 %.
NOTICEABLE = 0.15
WORTHWHILE = 0.05  # share of wall time that likely goes beyond what a cache spares: less is not worth saying
RECORDED = 0.5  # of its time: most passes record a graph
SEVERAL = 3  # validations: fewer have no interval
RARER = (2, 4, 10)  # times longer between two of them: at least, likely, at most
ACTING = 4.0  # steps between: a model that runs more often may be generating its own training data
# Words of names begin so.
NAMED = re.compile(r"valid|eval|test|scor|accura|metric|(?:val|dev)(?:s|set|loader)?$")


@tip(
    title="Validate less often, or on less data",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def frequent_validation(step: StepFacts, evals: EvalFacts, validation: ValidationFacts) -> Advice | None:
    """Advises a longer interval where validation takes a large share of the run."""
    if step.mean_s <= 0 or validation.count < SEVERAL:
        return None
    seconds = validation.seconds_per_step + validation.wait_per_step_s
    share = min(1.0, seconds / step.mean_s)
    passes = (validation.seconds_per_step - validation.spared_per_step_s) / step.mean_s
    waits = (validation.wait_per_step_s - validation.spared_wait_per_step_s) / step.mean_s
    left = min(share, passes + waits)
    low, likely, high = (1 - 1 / times for times in RARER)
    with_workers = share - validation.spared_wait_per_step_s / step.mean_s
    if with_workers < NOTICEABLE or likely * left < WORTHWHILE:
        return None
    if _may_be_acting(validation) and not _is_named(validation):
        return None
    if evals.grad_seconds_per_step > RECORDED * evals.seconds_per_step:
        return None  # the fix that keeps the interval comes first
    passes = min(left, passes)
    waits = left - passes
    between = validation.steps_between
    places = (validation.at, *validation.likewise, validation.passes)
    return Advice(
        because=(
            f"validation takes {share:.0%} of the training time" + _beyond(validation, left),
            f"{count(validation.count, 'validation')} of {seconds * between:,.2f} s, one "
            + every(between, "step"),
        ),
        change=Change(
            pauses=Estimate(low * passes, likely * passes, high * passes),
            others=Estimate(0.0, likely * waits, high * waits),
        ),
        also=(Bottleneck.DATA,) if waits > 0 else (),
        at=tuple(dict.fromkeys(at for at in places if at is not None)),
        code=_rarer(validation),
    )


def _beyond(validation: ValidationFacts, left: float) -> str:
    """What validation takes but for what others' cures spare, where they spare anything."""
    by_cache, by_workers = validation.spared_per_step_s > 0, validation.spared_wait_per_step_s > 0
    cures = ["a key/value cache"] * by_cache + ["other workers"] * by_workers
    spares = "spares" if cures == ["a key/value cache"] else "spare"
    return f", {left:.0%} beyond what {' and '.join(cures)} {spares}" if cures else ""


def _may_be_acting(validation: ValidationFacts) -> bool:
    """Whether the passes may make what the model is trained on next, such as an agent's episodes."""
    return validation.steps_between < ACTING or validation.dependence is Dependence.UPDATE


def _is_named(validation: ValidationFacts) -> bool:
    """Whether the name of the calling function, or what the calling line is about, mentions validation."""
    at, passes = validation.at, validation.passes
    return is_about(NAMED, at.statement if at else None, passes.function if passes else None)


def _rarer(validation: ValidationFacts) -> str:
    text = (validation.at.statement if validation.at is not None else None) or ""
    interval = validation.interval
    header = interval.rarer(RARER[1], max(2, round(validation.steps_between * RARER[1])))
    alone = validation.dependence is Dependence.REPORTED and not interval.is_in_caller
    if alone and text and not text.startswith(("for ", "with ", "if ")):
        return f"{header}\n    {repeated(validation.at)}"
    return f"{header}\n    ...  # validate, and what reads the result (schedule, early stopping)"
