"""Batches are prepared in threads of the training process, which compete for the interpreter lock.

## What it sees
The training thread waits for batches that other threads of its process prepare, and those threads run Python:
only one thread can run Python at a time, and the training thread has to wait its turn, too.

## By hand
    class Batches(torch.utils.data.Dataset):
        def __getitem__(self, index): ...        # what a thread does for one item

    for x, y in DataLoader(Batches(...), batch_size=32, shuffle=True, num_workers=2):

or `ProcessPoolExecutor` in place of `ThreadPoolExecutor`.

## When not
Threads that wait for a network or a disk, or run C code that releases the interpreter lock (decoding, NumPy
on large arrays), are as good as processes, and pass batches on at no cost.
"""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.data.helper_threads import HelperThreadFacts
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, Phase, StackFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of the step that waits for the threads
ONE_CORE = 1.4  # cores the process uses: with more, its threads do run side by side
# Share of the stall that goes: some of it may be other waits, and batches come through a queue as well.
FREED = (
    0.2,
    0.7,
    1.0,
)
KNEE = 0.05  # a worker more that brings less than this is not worth its memory


@tip(
    title="Prepare batches in processes, not in threads",
    bottleneck=Bottleneck.DATA,
    effort=Effort.REWRITE,
    checked=Checked.SCRIPTS,
)
def gil_bound_loader(
    stacks: StackFacts, work: HelperThreadFacts, cpu: CpuFacts, model: StepModel
) -> Advice | None:
    """Names the hottest line of the threads that the training thread waits for."""
    lines = stacks.phases.get(Phase.OTHER, ())
    queued = sum(line.share for line in lines if line.kind == "queue")
    blocked = work.blocked or 0.0
    waited = min(1.0, queued + work.awaited + blocked)
    if waited < NOTICEABLE or not work.busy:
        return None
    if cpu.main_cores is not None and cpu.main_cores > ONE_CORE:
        return None
    moved = Estimate(queued, queued, queued)
    change = Change(moved=moved, step=Estimate(*(blocked * freed for freed in FREED)))
    workers = model.after([change]).knee(max(1, int(cpu.usable_cores)), KNEE)
    top = work.lines[0]
    cores = f"; the process uses {cpu.main_cores:.1f} cores" if cpu.main_cores is not None else ""
    text = f": `{top.at.text}`" if top.at.text else ""
    running = f"{work.running:.1f} of {work.threads}"
    return Advice(
        because=(
            f"{waited:.0%} of each step waits for threads that prepare batches in the same process",
            f"{running} threads want to run Python, but only one can at a time{cores}",
            f"line {top.at.line} takes {top.share:.0%} of their time{text}",
        ),
        change=replace(change, workers=workers),
        at=tuple(line.at for line in work.lines[:3]),
        code=f"for batch in DataLoader(dataset, batch_size=..., shuffle=True, num_workers={workers}):",
    )
