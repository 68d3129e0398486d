"""Gradients are synchronised between ranks after every backward pass, although several make up one update.

## What it sees
Several backward passes with a gradient sync between two updates of one optimizer, and none without.

## By hand
    with model.no_sync() if micro_step < last else contextlib.nullcontext():
        criterion(model(x), y).backward()

Forward belongs inside: it is there that DistributedDataParallel decides whether backward synchronises.

## When not
With FSDP, gradients that are not synchronised stay unsharded in memory.
"""

from __future__ import annotations

from perfdoctor.facts.script.parallel import ParallelFacts, syncing
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.02  # share of the step
SEVERAL = 1.9  # syncs per update: two, but for a single odd step
GONE = (0.5, 0.9, 1.0)  # of that: what stays may have to wait where an earlier exchange had waited for it


@tip(
    title="Synchronise gradients once per update",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def allreduce_every_microstep(step: StepFacts, parallel: ParallelFacts) -> Advice | None:
    """Advises no_sync where accumulated gradients are synchronised after each backward pass."""
    exchanges = min(parallel.synced, step.backwards_per_step)
    if parallel.unsynced or exchanges < SEVERAL or step.updates_per_step > 1:
        return None
    each_s = _each_s(parallel, exchanges)
    if each_s is None:
        return None
    extra = (exchanges - 1) / exchanges
    shares = syncing(step, parallel)
    low, likely, high = (share * extra * gone for share, gone in zip(shares, GONE, strict=True))
    if likely < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"gradients are synchronised {exchanges:.0f} times per update: {exchanges - 1:.0f} too many",
            f"{each_s * 1e3:.1f} ms of each sync is not overlapped by the backward pass",
        ),
        change=removes(low, likely, high),
        at=(parallel.backward_at,) if parallel.backward_at else (),
        tweak="--no-sync",
        code="with model.no_sync():  # for all but the last backward of an update, and its forward\n"
        "    criterion(model(x), y).backward()",
    )


def _each_s(parallel: ParallelFacts, exchanges: float) -> float | None:
    """The part of one gradient sync that backward does not overlap, less waiting for other ranks if known."""
    if parallel.own is not None and parallel.gradient_sync is not None:
        return parallel.own.moving_s / exchanges
    return parallel.exposed_s
