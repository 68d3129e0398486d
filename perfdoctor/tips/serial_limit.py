"""Batches are prepared one at a time, behind a lock: no resource is busy, and yet the step waits.

## What it sees
The step waits for batches, and a large part of a batch's cost is waiting for a lock (of threading,
multiprocessing or a file) that another worker holds. The report shows the line that takes the lock and the
lines that run while it is held.

## By hand
Give each worker its own connection, file handle or cache (opened on first use in the worker) and remove the
lock; or hold it only around the part that must not run twice at once.

## When not
Where the lock guards a device that serves one caller at a time, removing it only moves the wait: request
less, or more per request.
"""

from __future__ import annotations

from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, LoaderFacts, Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.25  # of a batch's cost: with two workers at most half of it can be such a wait
SATURATED = 0.9  # of the cores: above it, batches wait for those, too
REMOVED = (0.0, 1.0, 1.0)  # of the wait: all of it, or none where what is behind the lock is itself the limit


@tip(
    title="Stop batch preparation from waiting for a lock",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def serial_limit(step: StepFacts, loader: LoaderFacts, batch: BatchFacts, cpu: CpuFacts) -> Advice | None:
    """Names the lock that batches wait for, where cores are free."""
    share = batch.share(Stage.WAITING, "lock")
    lines = batch.lines(Stage.WAITING, "lock")
    if step.share(Phase.DATA_WAIT) < NOTICEABLE or share < LARGE or not lines:
        return None
    if cpu.busy_cores is not None and cpu.busy_cores > SATURATED * cpu.usable_cores:
        return None
    low, likely, high = (share * removed for removed in REMOVED)
    busy = (
        f", {cpu.busy_cores:.1f} of {cpu.usable_cores:g} cores are busy" if cpu.busy_cores is not None else ""
    )
    line = lines[0].at.line
    held = batch.locked[:2]
    return Advice(
        because=(
            f"{waits(step)}{busy}",
            f"{share:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms is waiting for a lock (line {line})",
            *(f"line {cost.at.line} runs while it is held, {cost.share:.0%} of a batch" for cost in held),
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=(lines[0].at, *(cost.at for cost in held)),
    )
