"""The machine has more devices than the training uses.

## What it sees
More devices than ranks (or than DataParallel uses), those in use are busy, and computing is most of the step.
Devices that others compute on or keep memory of are left to them.

## By hand
    torchrun --nproc-per-node 8 train.py
    model = DistributedDataParallel(model.to(rank), device_ids=[rank])    # and a DistributedSampler

## When not
If others will need the devices. A model too large for one device needs to be sharded (FSDP) or split into
stages. More samples go into each update: the learning rate may have to change.
"""

from __future__ import annotations

from perfdoctor.facts.script.model_and_optimizers import ModelFacts
from perfdoctor.facts.script.parallel import ParallelFacts, torchrun
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import GpuFacts, Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import tip

BUSY = 0.5  # of the time; where devices wait for the host, more of them do not help
NOTICEABLE = 0.20  # share of the step in forward and backward
BYTES = 4  # of a gradient
# Bytes per second on the links of the ring, and how much of the gradient sync backward overlaps: a shared
# PCIe bus, a PCIe bus each, NVLink (published: 8, 16 to 32 and 300 to 900 GB/s; a ring reaches half).
LINKS = (4e9, 10e9, 100e9)
FREE_ONES = "export CUDA_VISIBLE_DEVICES=...  # those that others leave free, and yours\n"
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
    """Advises one process per device where the devices in use are busy and others are not used."""
    ranks_here = run.ranks if run.ranks > 1 else parallel.world  # all, if those of this node are unknown
    used = max(ranks_here, parallel.device_ids, 1)
    computing = step.share(Phase.FORWARD) + step.share(Phase.BACKWARD) + step.share(Phase.OPTIMIZER)
    free = parallel.devices if gpu.free is None else gpu.free
    devices = min(parallel.devices, used + free)
    if devices <= used or (gpu.utilisation or 0.0) < BUSY or computing < NOTICEABLE:
        return None
    times, taken = devices / used, parallel.devices - devices
    busy = f"{used} {'is' if used == 1 else 'are'} in use ({gpu.utilisation or 0.0:.0%} busy)"
    busy += f", {taken} {'is' if taken == 1 else 'are'} busy with other programs" if taken else ""
    low, likely, high = (
        computing * max(0.0, 1 - (1 + _exposed(model, devices, step, *case)) / times)
        for case in zip(LINKS, HIDDEN, strict=True)
    )
    return Advice(
        because=(
            f"{parallel.devices} devices are visible, {busy}",
            f"each rank would synchronise {model.parameters * BYTES / 1e6:,.0f} MB of gradients per step",
        ),
        change=removes(low, likely, high),
        at=(model.at,) if model.at else (),
        same_result=False,
        code=(FREE_ONES if taken else "") + torchrun(run.command, devices),
    )


def _exposed(model: ModelFacts, ranks: int, step: StepFacts, link: float, hidden: float) -> float:
    """Exposed gradient sync, in steps: each rank of a ring sends 2 (n - 1) / n of the gradients."""
    sent_bytes = 2 * (ranks - 1) / ranks * model.parameters * BYTES
    return sent_bytes / link * (1 - hidden) / step.mean_s if step.mean_s > 0 else 0.0
