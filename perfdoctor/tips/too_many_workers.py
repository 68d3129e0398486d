"""Worker processes take cores from the training step, or cost more than they save.

## What it sees
Workers and threads, of all ranks on the node together, outnumber the usable cores, and the step model, with
the measured CPU contention, predicts faster steps with fewer workers: they start sooner, and disturb the
training threads less.

## By hand
    DataLoader(dataset, ..., num_workers=1)

## When not
Workers that mostly wait for a disk or a network need no core of their own: many of them may be right.
"""

from __future__ import annotations

from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.facts.predict.thread_team import ThreadTeam
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, LoaderFacts, RunFacts, StepFacts, ThreadFacts
from perfdoctor.model.units import count
from perfdoctor.tips.catalogue import Checked, tip

ENOUGH = 1.03  # a likely gain below it is not worth a change
ENOUGH_CROWDED = 1.10  # beside other programs: cores that they hold are lacking with fewer workers, too
KNEE = 0.02  # of two counts this close, the smaller: it takes less memory


@tip(
    title="Use fewer worker processes",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def too_many_workers(
    run: RunFacts,
    step: StepFacts,
    loader: LoaderFacts,
    cpu: CpuFacts,
    threads: ThreadFacts,
    team: ThreadTeam,
    model: StepModel,
) -> Advice | None:
    """Advises fewer workers where they outnumber the cores and the step model predicts a gain."""
    computing = threads.intra_op if run.device == "cpu" else 1
    wanted = (loader.num_workers + computing) * team.teams
    if not loader.num_workers or wanted <= team.cores:
        return None
    times = {number: model.step_with(number) for number in range(loader.num_workers)}
    best_s = min(times.values())
    workers = next(number for number, step_s in times.items() if step_s <= best_s * (1 + KNEE))
    if model.gain(Change(workers=workers)).likely < (ENOUGH_CROWDED if cpu.crowded else ENOUGH):
        return None
    each = f"{count(loader.num_workers, 'worker')} and {count(computing, 'training thread')}"
    ranks = f" in each of {team.teams} ranks on this node" if team.teams > 1 else ""
    busy = ""
    if cpu.busy_cores is not None and team.cores == cpu.usable_cores:
        busy = f", of which this run keeps {cpu.busy_cores:.1f} busy"
    batch_ms, step_ms = loader.batch_s * 1e3, step.mean_s * 1e3
    return Advice(
        because=(
            f"{each}{ranks} share {team.cores:g} usable cores{busy}",
            f"a batch costs a worker {batch_ms:.1f} ms, and a step takes {step_ms:.1f} ms",
            f"{_enough(workers)} would keep up as well and take less from the training step",
        ),
        change=Change(workers=workers),
        at=(loader.at,) if loader.at else (),
        tweak=None if loader.iterable else f"--workers {workers}",
        same_result=not loader.iterable,  # each worker makes whole batches of its part
        code=f"DataLoader(..., num_workers={workers})",
        arguments=f"dataloader_num_workers={workers}",
    )


def _enough(workers: int) -> str:
    return count(workers, "worker") if workers else "the training process alone"
