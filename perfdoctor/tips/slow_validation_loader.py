"""Validation waits for batches that its loader prepares with fewer workers than training has.

## What it sees
The training loader has workers, another loader that no update is made from has fewer or none, and validation
waits for its batches. What more workers bring comes from the cost of its batches and from what validation
computes on each of them.

## By hand
    DataLoader(validation_set, ..., num_workers=4, persistent_workers=True)

## When not
Persistent workers of two loaders hold two copies of what their datasets keep: watch host memory. Where all
cores are busy while validation runs, more workers bring little. An IterableDataset that does not shard itself
yields its samples once per worker.
"""

from __future__ import annotations

from perfdoctor.facts.data.validation_loader import ValidationLoaderFacts
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.facts.predict.worker_count import of_validation, validation_batch_s
from perfdoctor.facts.script.validation import ValidationFacts
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.03  # share of step time; a shorter wait drowns in step-to-step noise


@tip(
    title="Give the validation loader the workers of the training loader",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def slow_validation_loader(
    step: StepFacts,
    loader: LoaderFacts,
    validation: ValidationFacts,
    slow: ValidationLoaderFacts,
    model: StepModel,
) -> Advice | None:
    """Advises as many workers as training has where validation waits for batches of fewer."""
    workers = loader.num_workers
    if not slow.is_slower_than(workers) or slow.wait_s < NOTICEABLE * step.mean_s:
        return None
    costs_ms, computes_ms = slow.batch_s * 1e3, validation_batch_s(validation, slow) * 1e3
    made = (f"the line builds {slow.built} loaders: keep one, so that its workers live on",)
    return Advice(
        because=(
            f"{min(1.0, slow.wait_s / step.mean_s):.0%} of the training time waits for batches of validation",
            f"its loader has num_workers={slow.num_workers}, the training loader {workers}",
            f"a batch of it costs {costs_ms:.1f} ms, and validation computes {computes_ms:.1f} ms on it",
            *(made if slow.built > 1 else ()),
        ),
        change=Change(others=of_validation(model, slow, validation, workers)),
        at=(slow.at,) if slow.at else (),
        tweak=None if slow.iterable else f"--workers {workers} --persistent-workers",
        same_result=not slow.iterable,
        code=f"DataLoader(..., num_workers={workers}, persistent_workers=True)",
    )
