"""Gradients are exchanged between processes after every backward, although several make up one update.

## What it sees
Several passes with gradient exchange between two updates of one optimizer, and none without.

## By hand
    with model.no_sync() if micro_step < last else contextlib.nullcontext():
        criterion(model(x), y).backward()

## When not
With FSDP, gradients that are not exchanged stay whole in memory.
"""

from __future__ import annotations

from perfdoctor.analysis.parallel import ParallelFacts, exchanging
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, StepFacts

NOTICEABLE = 0.02  # share of the step
SEVERAL = 1.9  # exchanges an update: two, but for a lone odd step
GONE = (0.5, 0.9, 1.0)  # of that: what stays may have to wait where an earlier exchange had waited for it


@tip(
    title="Exchange gradients once per update",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def allreduce_every_microstep(step: StepFacts, parallel: ParallelFacts) -> Advice | None:
    """no_sync, where accumulated gradients are exchanged each time."""
    exchanges = min(parallel.synced, step.backwards_per_step)
    if parallel.unsynced or exchanges < SEVERAL or step.updates_per_step > 1:
        return None
    each_s = _each_s(parallel, exchanges)
    if each_s is None:
        return None
    extra = (exchanges - 1) / exchanges
    shares = exchanging(step, parallel)
    low, likely, high = (share * extra * gone for share, gone in zip(shares, GONE, strict=True))
    if likely < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"{exchanges:.0f} exchanges of gradients for each update: {exchanges - 1:.0f} too many",
            f"one takes {each_s * 1e3:.1f} ms that backward does not hide",
        ),
        change=removes(low, likely, high),
        at=(parallel.backward_at,) if parallel.backward_at else (),
        tweak="--no-sync",
        code="with model.no_sync():  # for all but the last backward of an update\n    loss.backward()",
    )


def _each_s(parallel: ParallelFacts, exchanges: float) -> float | None:
    """What backward does not hide of one exchange, without waiting for other ranks where that is known."""
    if parallel.own is not None and parallel.exchange is not None:
        return parallel.own.moving_s / exchanges
    return parallel.exposed_s
