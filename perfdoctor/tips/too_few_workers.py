"""Batches come late because too few worker processes prepare them.

## What it sees
The training process waits for its next batch, batches cost a worker more than the step can hide, and cores
(or, where batches wait for a disk or a network, time to wait in parallel) are free.

## By hand
    DataLoader(dataset, ..., num_workers=4, persistent_workers=True)

## When not
With all cores busy, more workers only take them from the training step. Each worker holds its own copy of
the dataset object: watch host memory. Over an IterableDataset, workers repeat its samples unless it shards
itself.
"""

from __future__ import annotations

import math

from perfdoctor.analysis.stepmodel import StepModel
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort
from perfdoctor.model import Advice, Bottleneck, CpuFacts, LoaderFacts, Phase, StepFacts

NOTICEABLE = 0.08  # share of step time; a shorter wait drowns in step-to-step noise
WAITING = 0.5  # of a batch's cost: below this CPU share its makers mostly wait for a disk or a network
IN_PARALLEL = 4  # workers per core that are worth trying where they mostly wait
MOST = 32  # workers; beyond it start-up and memory outweigh what is left to gain
KNEE = 0.05  # a worker more that brings less than this is not worth its memory
ENOUGH = 1.03  # a likely gain below it is not worth a change


@tip(
    title="Prepare batches in more worker processes",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def too_few_workers(step: StepFacts, loader: LoaderFacts, cpu: CpuFacts, model: StepModel) -> Advice | None:
    """More workers, where batches are late and the step model finds room for them."""
    waited_s = (
        step.seconds.get(Phase.DATA_WAIT, 0.0)
        - loader.other_wait_s
        - loader.epoch_wait_s * bool(loader.num_workers)
    )
    if waited_s < NOTICEABLE * step.mean_s:
        return None
    workers = model.knee(most_workers(model, cpu), KNEE)
    change = Change(workers=workers)
    if workers <= loader.num_workers or model.gain(change).likely < ENOUGH:
        return None
    live_on = "" if loader.persistent_workers or loader.epochs < 2 else " --persistent-workers"
    late = "they are late" if loader.num_workers else "the training process prepares every batch itself"
    batch_ms, cpu_ms = loader.batch_s * 1e3, loader.batch_cpu_s * 1e3
    busy = f", {cpu.busy_cores:.1f} of them busy" if cpu.busy_cores is not None else ""
    return Advice(
        because=(
            f"{waited_s / step.mean_s:.0%} of each step waits for the next batch",
            f"num_workers is {loader.num_workers}: {late}",
            f"a batch costs {batch_ms:.1f} ms, {cpu_ms:.1f} ms of it on the CPU",
            f"{cpu.usable_cores:g} cores are usable{busy}",
        ),
        change=change,
        at=(loader.at,) if loader.at else (),
        tweak=None if loader.iterable else f"--workers {workers}{live_on}",
        same_result=not loader.iterable,
        code=f"DataLoader(..., num_workers={workers}, persistent_workers=True)",
    )


def most_workers(model: StepModel, cpu: CpuFacts) -> int:
    """How many workers are worth a thought: as many as cores, more where they mostly wait."""
    blocked = model.data_cpu_s < WAITING * model.data_s
    return min(MOST, math.ceil(cpu.usable_cores * (IN_PARALLEL if blocked else 1)))
