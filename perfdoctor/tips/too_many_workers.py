"""Worker processes take the cores that the training step needs, or cost more than they save.

## What it sees
There are more workers and threads than usable cores, those of all ranks on the node together, and by the
model of the step, with the contention that was measured, fewer workers make it faster: they start sooner,
and disturb the training threads less.

## By hand
    DataLoader(dataset, ..., num_workers=1)

## When not
Workers that mostly wait for a disk or a network need no core of their own: many of them may be right.
"""

from __future__ import annotations

from perfdoctor.analysis.stepmodel import StepModel
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort
from perfdoctor.model import Advice, Bottleneck, CpuFacts, LoaderFacts, RunFacts, StepFacts, ThreadFacts

ENOUGH = 1.03  # a likely gain below it is not worth a change
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
    model: StepModel,
) -> Advice | None:
    """Fewer workers, where there are more of them than cores and the model does better with less."""
    computing = threads.intra_op if run.device == "cpu" else 1
    wanted = (loader.num_workers + computing) * run.ranks
    if not loader.num_workers or wanted <= cpu.usable_cores:
        return None
    times = {count: model.step_with(count) for count in range(loader.num_workers)}
    best_s = min(times.values())
    workers = next(count for count, step_s in times.items() if step_s <= best_s * (1 + KNEE))
    if model.gain(Change(workers=workers)).likely < ENOUGH:
        return None
    each = f"{loader.num_workers} workers and {computing} thread{'s' if computing > 1 else ''} that train"
    ranks = f" on each of {run.ranks} ranks of this node" if run.ranks > 1 else ""
    busy = f", {cpu.busy_cores:.1f} of them busy" if cpu.busy_cores is not None else ""
    batch_ms, step_ms = loader.batch_s * 1e3, step.mean_s * 1e3
    return Advice(
        because=(
            f"{each}{ranks} share {cpu.usable_cores:g} usable cores{busy}",
            f"a batch costs a worker {batch_ms:.1f} ms, and a step takes {step_ms:.1f} ms",
            f"{workers} of them would keep up as well and take less from the training step",
        ),
        change=Change(workers=workers),
        at=(loader.at,) if loader.at else (),
        tweak=None if loader.iterable else f"--workers {workers}",
        same_result=not loader.iterable,  # each worker makes whole batches of its part
        code=f"DataLoader(..., num_workers={workers})",
    )
