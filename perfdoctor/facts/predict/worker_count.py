"""Predicts what workers of a DataLoader bring: how many are worth having, and what their restarts cost."""

from __future__ import annotations

import math
from dataclasses import replace

from perfdoctor.facts.data.validation_loader import ValidationLoaderFacts
from perfdoctor.facts.predict.batch_queue import EVEN
from perfdoctor.facts.predict.step_model import BEST, LIKELY, WORST, StepModel
from perfdoctor.model.change import NOTHING, Change, Estimate
from perfdoctor.model.measured import CpuFacts, LoaderFacts, Phase, StepFacts

BLOCKED = 0.5  # of a batch's cost: below this CPU share its makers mostly wait for a disk or a network
IN_PARALLEL = 4  # workers per core that are worth trying where they mostly wait
MOST = 32  # workers; beyond it start-up and memory outweigh what is left to gain
KNEE = 0.05  # a worker more that brings less than this is not worth its memory
WAITED = 0.03  # share of the training time that waits for batches of validation; less drowns in noise
SURE = 0.6  # of the stall certainly goes: forking or spawning; the rest is the first batch, partly


def most_workers(model: StepModel, cpu: CpuFacts) -> int:
    """The most workers to consider: as many as cores, more where they mostly wait."""
    blocked = model.data_cpu_s < BLOCKED * model.data_s
    return min(MOST, math.ceil(cpu.usable_cores * (IN_PARALLEL if blocked else 1)))


def good_workers(model: StepModel, cpu: CpuFacts) -> int:
    """The fewest workers, from one on, that are nearly as good as any number of them."""
    return model.knee(most_workers(model, cpu), KNEE)


def start_again(loader: LoaderFacts) -> bool:
    """Whether the training loader's workers start again for each epoch."""
    return loader.restarts > 0


def restarts(step: StepFacts, loader: LoaderFacts) -> Estimate:
    """The share of the training time that goes if workers live on between epochs, those of validation too."""
    if step.wall_s <= 0:
        return NOTHING
    removed_s = most_s = 0.0
    if start_again(loader) and loader.epoch_start_s:
        stall_s = loader.epoch_start_s - (loader.steady_wait_s or 0.0)
        ends_s = loader.epoch_end_s or 0.0
        # the first batch still has to be prepared
        removed_s, most_s = (
            (max(0.0, s) + ends_s) * loader.restarts for s in (stall_s - loader.batch_s, stall_s)
        )
    others = loader.others_restart_s / step.mean_s
    share, most = (min(1.0, seconds / step.wall_s + others) for seconds in (removed_s, most_s))
    return Estimate(SURE * share, share, most)


def kept_alive(step: StepFacts, loader: LoaderFacts) -> Change:
    """What goes if workers live on between epochs."""
    starts = restarts(step, loader)
    if not loader.num_workers:  # then there are those of other loaders only
        return Change(others=starts)
    return Change(step=slowed(step, loader), starts=starts)


def slowed(step: StepFacts, loader: LoaderFacts) -> Estimate:
    """The share of the training time by which steps train faster if no workers start in them."""
    if not start_again(loader) or step.wall_s <= 0:
        return NOTHING
    share = min(1.0, loader.epoch_slowed_s * loader.restarts / step.wall_s)
    return Estimate(0.0, share, share)  # a first step of an epoch may be slower for another reason


def validation_batch_s(step: StepFacts, slow: ValidationLoaderFacts) -> float:
    """Seconds that validation computes on one of its batches."""
    return step.seconds.get(Phase.VALIDATION, 0.0) / slow.batches_per_step


def more_for_validation(
    step: StepFacts, loader: LoaderFacts, slow: ValidationLoaderFacts, model: StepModel, cpu: CpuFacts
) -> tuple[int, Estimate] | None:
    """How many workers validation should have, and the share of the training time that goes if it does.

    As many as training has, or more where its own batches ask for more. None where it has as many, or where
    more bring next to nothing.
    """
    one = _of_a_batch(model, slow, validation_batch_s(step, slow))
    workers = max(loader.num_workers, good_workers(one, cpu))
    if not one.compute_s or slow.num_workers >= workers:
        return None
    gone = _goes(model, slow, one, workers)
    return (workers, gone) if gone.likely >= WAITED else None


def of_validation(step: StepFacts, slow: ValidationLoaderFacts, model: StepModel, workers: int) -> Estimate:
    """The share of the training time that goes if so many workers prepare the batches of validation."""
    one = _of_a_batch(model, slow, validation_batch_s(step, slow))
    return _goes(model, slow, one, workers) if one.compute_s else NOTHING


def _of_a_batch(model: StepModel, slow: ValidationLoaderFacts, computed_s: float) -> StepModel:
    """A batch of validation, played through like a step: what is computed on it, and what it costs."""
    busy = model.compute_cpu_s / model.compute_s if model.compute_s > 0 else 1.0
    return replace(
        model,
        step_s=computed_s + slow.batch_s,
        compute_s=computed_s,
        compute_cpu_s=computed_s * busy,
        main_s=computed_s,
        data_s=slow.batch_s,
        data_cpu_s=slow.batch_cpu_s,
        batches=1.0,
        spread=EVEN,
        workers=slow.num_workers,
        transfer_s=0.0,
        pinning_s=(0.0, 0.0, 0.0),
        epoch_s=0.0,
        epochs_per_step=slow.epochs / slow.batches,
        starts_per_step=1 / slow.batches,
        fixed_s=0.0,
        pauses_s=0.0,
        paused_s=0.0,
    )


def _goes(model: StepModel, slow: ValidationLoaderFacts, one: StepModel, workers: int) -> Estimate:
    saved = (
        (one.step_with(slow.num_workers, case) - one.step_with(workers, case)) * slow.batches_per_step
        for case in (WORST, LIKELY, BEST)
    )
    waits_s = min(slow.wait_s, model.fixed_s)  # what starts other loaders' workers is counted apart
    return Estimate(*sorted(max(0.0, min(waits_s, each_s)) / model.step_s for each_s in saved))
