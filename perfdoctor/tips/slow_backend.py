"""Gradients of a device travel through the CPU, because the process group uses gloo.

## What it sees
A process group whose only backend is gloo, parameters on a device, and gradient sync that backward does not
overlap.

## By hand
    torch.distributed.init_process_group("nccl")

## When not
Where the device's own library (NCCL) is not available, or ranks share one device.
"""

from __future__ import annotations

from perfdoctor.facts.script.parallel import ParallelFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.05  # share of the step
# Of the exposed gradient sync: gloo copies to the host, sends and copies back, at 1 to 3 GB/s; the bus alone,
# which limits NCCL at worst, carries 10 GB/s and more, links between devices a hundred (nccl-tests).
GONE = (0.5, 0.8, 0.97)


@tip(
    title="Synchronise gradients directly between devices (NCCL)",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("gpu", "distributed"),
)
def slow_backend(step: StepFacts, parallel: ParallelFacts) -> Advice | None:
    """Advises NCCL instead of gloo where a device waits for gradient sync."""
    if parallel.backend != "gloo" or parallel.device == "cpu" or step.mean_s <= 0:
        return None
    if parallel.own is not None and parallel.gradient_sync is not None:
        share = min(1.0, parallel.own.moving_s / step.mean_s)
    else:
        share = min(1.0, parallel.synced * (parallel.exposed_s or 0.0) / step.mean_s)
    if share < NOTICEABLE:
        return None
    low, likely, high = (share * gone for gone in GONE)
    return Advice(
        because=(
            f"gloo sends the gradients of {parallel.device} parameters through the CPU",
            f"{share:.0%} of the step is gradient sync that backward does not overlap",
        ),
        change=removes(low, likely, high),
        at=(parallel.group_at,) if parallel.group_at else (),
        code='torch.distributed.init_process_group("nccl")',
    )
