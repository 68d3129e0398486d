"""Batches are prepared in threads of the training process, which take turns at the interpreter.

## What it sees
The training thread waits for batches that other threads of its process prepare, and those threads run Python:
only one of them can at a time, and the training thread is one more that has to wait its turn.

## By hand
    class Batches(torch.utils.data.Dataset):
        def __getitem__(self, index): ...        # what a thread does for one item

    for x, y in DataLoader(Batches(...), batch_size=32, shuffle=True, num_workers=2):

or `ProcessPoolExecutor` in place of `ThreadPoolExecutor`.

## When not
Threads that wait for a network or a disk, or work in C code that lets the others run (decoding, NumPy on
large arrays), are as good as processes, and hand batches over for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.analysis.stepmodel import StepModel
from perfdoctor.analysis.threads import ThreadWork
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort, Estimate
from perfdoctor.model import Advice, Bottleneck, CpuFacts, Phase, StackFacts

NOTICEABLE = 0.10  # share of the step that waits for the threads
ONE_CORE = 1.4  # cores the process uses: with more, its threads do run side by side
# Of the time held up: some of it may be other waits, and batches arrive by a queue, too.
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
def gil_bound_loader(stacks: StackFacts, work: ThreadWork, cpu: CpuFacts, model: StepModel) -> Advice | None:
    """The hottest line of threads that the training thread waits for."""
    lines = stacks.phases.get(Phase.OTHER, ())
    queued = sum(line.share for line in lines if line.kind == "queue")
    held_up = work.held_up or 0.0
    waited = min(1.0, queued + work.awaited + held_up)
    if waited < NOTICEABLE or not work.busy:
        return None
    if cpu.main_cores is not None and cpu.main_cores > ONE_CORE:
        return None
    moved = Estimate(queued, queued, queued)
    change = Change(moved=moved, step=Estimate(*(held_up * freed for freed in FREED)))
    workers = model.after([change]).knee(max(1, int(cpu.usable_cores)), KNEE)
    top = work.lines[0]
    cores = f", on {cpu.main_cores:.1f} cores" if cpu.main_cores is not None else ""
    text = f": `{top.at.text}`" if top.at.text else ""
    return Advice(
        because=(
            f"{waited:.0%} of each step waits for threads that prepare batches in the same process",
            f"{work.running:.1f} of {work.threads} threads had Python to run at a time, and one can{cores}",
            f"line {top.at.line} takes {top.share:.0%} of what they run{text}",
        ),
        change=replace(change, workers=workers),
        at=tuple(line.at for line in work.lines[:3]),
        code=f"for batch in DataLoader(dataset, batch_size=..., shuffle=True, num_workers={workers}):",
    )
