"""nn.DataParallel drives several devices from one process, whose threads share one interpreter lock.

## What it sees
`nn.DataParallel` over two or more devices, with forward and backward a large share of the step. It copies the
model to every device in each forward pass, scatters the batch and gathers the outputs on the first device.

## By hand
    torchrun --nproc-per-node 4 train.py
    model = DistributedDataParallel(model.to(rank), device_ids=[rank])    # and a DistributedSampler

## When not
Where the script cannot run as several processes. Each process then gets a part of the old batch.
"""

from __future__ import annotations

from perfdoctor.facts.script.parallel import ParallelFacts, torchrun
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.20  # share of the step in forward and backward
# Of them: on two devices DataParallel took 110 s where one process a device took 101 s (Transformers' guide
# to several GPUs); with small models or more devices the copies and the lock weigh more.
GONE = (0.08, 0.20, 0.50)


@tip(
    title="Run one process per device",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.REWRITE,
    applies=("gpu", "distributed"),
)
def data_parallel(run: RunFacts, step: StepFacts, parallel: ParallelFacts) -> Advice | None:
    """Advises DistributedDataParallel instead of DataParallel."""
    computing = step.share(Phase.FORWARD) + step.share(Phase.BACKWARD)
    if parallel.wrapper != "DataParallel" or parallel.device_ids < 2 or computing < NOTICEABLE:
        return None
    low, likely, high = (computing * gone for gone in GONE)
    return Advice(
        because=(
            f"one process drives {parallel.device_ids} devices through nn.DataParallel",
            f"forward and backward are {computing:.0%} of the step, including copies between devices",
        ),
        change=removes(low, likely, high),
        at=(parallel.wrapped_at,) if parallel.wrapped_at else (),
        same_result=False,
        code=torchrun(run.command, parallel.device_ids),
    )
