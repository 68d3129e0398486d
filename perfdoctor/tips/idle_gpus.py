"""The machine has several devices, and the training uses fewer of them.

## What it sees
More devices than ranks (or than DataParallel's devices), the used ones busy, and computing most of the step.

## By hand
    torchrun --nproc-per-node 8 train.py
    model = DistributedDataParallel(model.to(rank), device_ids=[rank])    # and a DistributedSampler

## When not
Devices that others use. A model too large for one device needs to be sharded (FSDP) or cut into stages. More
samples go into each update: the learning rate may have to change.
"""

from __future__ import annotations

from perfdoctor.analysis.built import ModelFacts
from perfdoctor.analysis.parallel import ParallelFacts, torchrun
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, GpuFacts, Phase, RunFacts, StepFacts

BUSY = 0.5  # of the time; devices that wait for the host are not what is missing
NOTICEABLE = 0.20  # share of the step in forward and backward
BYTES = 4  # of a gradient
# Bytes per second on the links of the ring, and how much of the exchange backward hides: a shared PCIe bus,
# one of its own, NVLink (published: 8, 16 to 32 and 300 to 900 GB/s, of which a ring reaches about half).
LINKS = (4e9, 10e9, 100e9)
HIDDEN = (0.0, 0.5, 0.9)


@tip(
    title="Train on all devices",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.REWRITE,
    applies=("gpu", "distributed"),
    rivals=("data-parallel",),
)
def idle_gpus(
    run: RunFacts, step: StepFacts, parallel: ParallelFacts, gpu: GpuFacts, model: ModelFacts
) -> Advice | None:
    """One process for each device, where one that is used is busy and others are there."""
    ranks_here = run.ranks if run.ranks > 1 else parallel.world  # where they are not told apart, all of them
    used = max(ranks_here, parallel.device_ids, 1)
    computing = step.share(Phase.FORWARD) + step.share(Phase.BACKWARD) + step.share(Phase.OPTIMIZER)
    if parallel.devices <= used or (gpu.utilisation or 0.0) < BUSY or computing < NOTICEABLE:
        return None
    times = parallel.devices / used
    busy = f"{used} {'is' if used == 1 else 'are'} used ({gpu.utilisation or 0.0:.0%} busy)"
    low, likely, high = (
        computing * max(0.0, 1 - (1 + _exposed(model, parallel.devices, step, *case)) / times)
        for case in zip(LINKS, HIDDEN, strict=True)
    )
    return Advice(
        because=(
            f"{parallel.devices} devices can be seen, {busy}",
            f"each rank would exchange {model.parameters * BYTES / 1e6:,.0f} MB of gradients a step",
        ),
        change=removes(low, likely, high),
        at=(model.at,) if model.at else (),
        same_result=False,
        code=torchrun(run.command, parallel.devices),
    )


def _exposed(model: ModelFacts, ranks: int, step: StepFacts, link: float, hidden: float) -> float:
    """Exchange that nothing hides, in steps: each rank of a ring sends 2 (n - 1) / n of the gradients."""
    sent_bytes = 2 * (ranks - 1) / ranks * model.parameters * BYTES
    return sent_bytes / link * (1 - hidden) / step.mean_s if step.mean_s > 0 else 0.0
