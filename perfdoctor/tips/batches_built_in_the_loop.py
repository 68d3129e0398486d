"""The training process prepares its batches itself, in the training loop.

## What it sees
A noticeable share of the step is spent on lines of the training loop that compute the model's inputs, in the
training process and without a DataLoader.

## By hand
    class Batches(torch.utils.data.Dataset):
        def __getitem__(self, index): ...        # what the loop does for one batch

    for x, y in DataLoader(Batches(...), batch_size=None, num_workers=1):

## When not
Where the algorithm generates its data from the model during training (reinforcement learning, self-play),
batches cannot be prepared ahead. Where vectorising makes those lines cheap, that is simpler.
"""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.model.change import Change, Effort, Estimate, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, Phase, StackFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.08  # share of step time
SEEN = 5  # samples in those lines: fewer may be chance
# Share of the cost that vectorising its Python saves, without any worker: the alternative.
VECTORISED = 0.5
KNEE = 0.05  # a worker more that brings less than this is not worth its memory


@tip(
    title="Prepare batches ahead of time, in worker processes",
    bottleneck=Bottleneck.DATA,
    effort=Effort.REWRITE,
    checked=Checked.SCRIPTS,
)
def batches_built_in_the_loop(
    step: StepFacts, stacks: StackFacts, cpu: CpuFacts, model: StepModel
) -> Advice | None:
    """Advises a DataLoader with workers where the training loop spends much time on preparing batches."""
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
            f"{share:.0%} of each step ({ms:.1f} ms) is spent preparing the next batch in the training loop",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
        ),
        change=better,
        at=tuple(line.at for line in lines[:3]),
        code=f"for batch in DataLoader(batches, batch_size=None, num_workers={workers}):  # a batch an item",
    )
