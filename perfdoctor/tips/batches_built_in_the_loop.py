"""The training process builds its batches itself, between the steps, while it could be training.

## What it sees
A visible share of the step passes through lines of the loop that make the arguments of the model call, in the
training process and without a DataLoader.

## By hand
    class Batches(torch.utils.data.Dataset):
        def __getitem__(self, index): ...        # what the loop does for one batch

    for x, y in DataLoader(Batches(...), batch_size=None, num_workers=1):

## When not
Where an algorithm makes its data from the model as it trains (reinforcement learning, self-play), batches
cannot be prepared ahead. Where the lines are cheap once vectorised, that is the shorter way.
"""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.analysis.stepmodel import StepModel
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort, Estimate, removes
from perfdoctor.model import Advice, Bottleneck, CpuFacts, Phase, StackFacts, StepFacts

NOTICEABLE = 0.08  # share of step time
SEEN = 5  # samples in those lines: fewer could be chance
# Of the cost, goes without any worker if the Python in it does: the other way to the same end.
VECTORISED = 0.5
KNEE = 0.05  # a worker more that brings less than this is not worth its memory


@tip(
    title="Build batches ahead, in worker processes",
    bottleneck=Bottleneck.DATA,
    effort=Effort.REWRITE,
    checked=Checked.SCRIPTS,
)
def batches_built_in_the_loop(
    step: StepFacts, stacks: StackFacts, cpu: CpuFacts, model: StepModel
) -> Advice | None:
    """A DataLoader with workers, where the loop's own batch building is a real share of it."""
    lines = [line for line in stacks.phases.get(Phase.OTHER, ()) if line.kind == "data"]
    share = min(1.0, sum(line.share for line in lines))
    if share < NOTICEABLE or sum(line.samples for line in lines) < SEEN:
        return None
    moved = Change(moved=Estimate(share, share, share))
    workers = model.after([moved]).knee(max(1, int(cpu.usable_cores)), KNEE)
    top = lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    vectorised = removes(0.0, VECTORISED * share, share)
    better = max(replace(moved, workers=workers), vectorised, key=lambda change: model.gain(change).likely)
    ms = share * step.mean_s * 1e3
    return Advice(
        because=(
            f"{share:.0%} of each step ({ms:.1f} ms) builds the next batch in the training loop",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
        ),
        change=better,
        at=tuple(line.at for line in lines[:3]),
        code=f"for batch in DataLoader(batches, batch_size=None, num_workers={workers}):  # a batch an item",
    )
