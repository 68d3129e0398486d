"""Validation waits for batches that its loader prepares with fewer workers than it could use.

## What it sees
Validation waits for the batches of a loader that no update is made from, and more workers would take that
wait away, or a part of it. As many as training has are advised, or more where validation can use them: it
takes batches faster, since it makes no backward pass. What more workers bring comes from the cost of its
batches and from what validation computes on each of them.

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
from perfdoctor.facts.predict.worker_count import more_for_validation, validation_batch_s
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, LoaderFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip


@tip(
    title="Give the validation loader enough workers",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def slow_validation_loader(
    step: StepFacts, loader: LoaderFacts, slow: ValidationLoaderFacts, model: StepModel, cpu: CpuFacts
) -> Advice | None:
    """Advises as many workers as training has, or more, where validation waits for batches of fewer."""
    more = more_for_validation(step, loader, slow, model, cpu)
    if more is None:
        return None
    workers, gone = more
    costs_ms, computes_ms = slow.batch_s * 1e3, validation_batch_s(step, slow) * 1e3
    share = min(1.0, slow.wait_s / step.mean_s)
    made = (f"the line builds {slow.built} loaders: keep one, so that its workers live on",)
    return Advice(
        because=(
            f"{share:.0%} of the training time waits for batches of validation",
            f"its loader has num_workers={slow.num_workers}, the training loader {loader.num_workers}",
            f"a batch of it costs {costs_ms:.1f} ms, and validation computes {computes_ms:.1f} ms on it",
            *(made if slow.built > 1 else ()),
        ),
        change=Change(others=gone),
        at=(slow.at,) if slow.at else (),
        tweak=_tweak(loader, slow, model, workers),
        same_result=not slow.iterable,
        code=f"DataLoader(..., num_workers={workers}, persistent_workers=True)",
        takes=share,
    )


def _tweak(loader: LoaderFacts, slow: ValidationLoaderFacts, model: StepModel, workers: int) -> str | None:
    """The flags that try it; they give the training loader as many, which must not make its steps longer."""
    is_other = workers != loader.num_workers
    if slow.iterable or (is_other and loader.iterable):
        return None
    if is_other and model.step_with(workers) > model.step_with(loader.num_workers):
        return None
    return f"--workers {workers} --persistent-workers"
