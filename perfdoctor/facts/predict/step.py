"""Takes the run's step apart (StepModel), and says what it loses to its own loader workers (StepFacts)."""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.data.handing_over import HandOverFacts
from perfdoctor.facts.data.pinning import PinningFacts
from perfdoctor.facts.host.rank_cores import RankCores
from perfdoctor.facts.host.resources import share_of
from perfdoctor.facts.predict.contention import cpu_contention
from perfdoctor.facts.predict.step_model import StepModel, build, of_loop
from perfdoctor.facts.predict.worker_count import slowed
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.summary import TimedStep
from perfdoctor.model.measured import CpuFacts, LoaderFacts, Phase, RunFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RunRecords

GOES_ON = 10.0  # times the steps seen, at least: nobody ends a training early of which a tenth is over
MOST_WORKERS = 512  # several times the cores of the largest machines: only a damaged run tells of more


@fact
def step_model(
    records: RunRecords,
    run: RunFacts,
    timed: TimedStep,
    cpu: CpuFacts,
    loader: LoaderFacts | None,
    pinning: PinningFacts | Missing | None,
    bound: RankCores | Missing | None = None,
    handing: HandOverFacts | Missing | None = None,
) -> StepModel | Missing:
    """The model of the run's step, with the cores that one of its ranks can have to itself."""
    cores = bound.each(cpu) if isinstance(bound, RankCores) else share_of(cpu, run.ranks)
    lost = cpu_contention(records.sharing, cpu.worth(1.0))
    if loader is None:
        return of_loop(timed.step, cores, lost)
    if loader.num_workers > MOST_WORKERS:
        return Missing(f"no loader has {loader.num_workers:,} workers")
    pins = pinning.busy if isinstance(pinning, PinningFacts) else (0.0, 0.0, 0.0)
    model = build(timed.step, loader, cores, lost, pins, _handing_s(timed.step, handing))
    if isinstance(model, Missing) or not run.was_to_go_on:
        return model
    return _going_on(model, timed.step, loader, run.ranks)


def _handing_s(step: StepFacts, handing: HandOverFacts | Missing | None) -> float:
    """Seconds of a step for which batches on their way are waited for; what a thread pins is told apart."""
    if not isinstance(handing, HandOverFacts) or handing.pinned:
        return 0.0
    return step.seconds.get(Phase.DATA_WAIT, 0.0) * handing.of_waits


def _going_on(model: StepModel, step: StepFacts, loader: LoaderFacts, ranks: int) -> StepModel:
    """The model of a training that was to go on: what is paid once is paid over all of it."""
    if loader.built > 1:
        return model  # it makes a loader again for each epoch, whose workers start as often as was seen
    size = loader.batch_size or loader.samples / max(1, loader.batches)  # of its own sampler: the mean
    batches = (loader.items or 0) / (ranks * (size or 1.0))
    epoch = batches / (loader.batches_per_step or 1.0)
    return replace(model, goes_on=max(GOES_ON, epoch / max(1, step.count)))


@fact
def step_facts(
    timed: TimedStep,
    run: RunFacts,
    model: StepModel | Missing,
    cpu: CpuFacts | Missing,
    loader: LoaderFacts | Missing | None,
) -> StepFacts:
    """The step; on a device, workers on the CPU's cores take nothing from it.

    Workers that start in some steps slow these down more than their share of the cores tells.
    """
    if run.on_device or not isinstance(model, StepModel) or not isinstance(cpu, CpuFacts):
        return timed.step
    starting_s = 0.0
    if isinstance(loader, LoaderFacts):
        starting_s = slowed(timed.step, loader).likely * timed.step.mean_s
    return replace(timed.step, contention_s=max(_contention_s(model, cpu), starting_s))


def _contention_s(model: StepModel, cpu: CpuFacts) -> float:
    """Seconds per step that training loses because its own loader workers have the cores."""
    if not model.workers or not cpu.worker_cores:
        return 0.0
    return model.contention_s * cpu.worker_cores / (cpu.worker_cores + (cpu.other_cores or 0.0))
