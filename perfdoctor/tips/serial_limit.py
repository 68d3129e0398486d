"""Nothing is busy and the step still waits: batches are prepared one at a time, behind a lock.

## What it sees
The step waits for batches, and a large part of what a batch costs is waiting for a lock (of threading,
multiprocessing or a file) that another worker holds. The line that takes it and the lines that run while it
is held are shown.

## By hand
Give each worker its own connection, file handle or cache (opened on first use in the worker) and drop the
lock; or hold it only around what must not run twice at once.

## When not
Where the lock guards a device that serves one caller at a time, removing it only moves the wait: ask for
less, or for more at once.
"""

from __future__ import annotations

from perfdoctor.batch import BatchFacts, Stage, waits
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort, Estimate
from perfdoctor.model import Advice, Bottleneck, CpuFacts, LoaderFacts, Phase, StepFacts

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.25  # of a batch's cost: with two workers at most half of it can be such a wait
SATURATED = 0.9  # of the cores: above it, batches wait for those, too
REMOVED = (0.0, 1.0, 1.0)  # of the wait: all of it, or none where what is behind the lock is itself the limit


@tip(
    title="Take the lock out of the way of preparing batches",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def serial_limit(step: StepFacts, loader: LoaderFacts, batch: BatchFacts, cpu: CpuFacts) -> Advice | None:
    """The lock that batches wait for, where cores are free."""
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
            f"{share:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms waits for a lock (line {line})",
            *(f"line {own.at.line} runs while it is held, {own.share:.0%} of a batch" for own in held),
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=(lines[0].at, *(own.at for own in held)),
    )
