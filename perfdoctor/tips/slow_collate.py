"""Batches are late because putting samples together takes most of their cost.

## What it sees
The step waits for batches, and the collate function takes a large part of what a batch costs: this is timed
in the process that collates, and the line is found by stack samples.

## By hand
Make one array of the batch and fill it in one call (`np.stack`, `torch.nn.utils.rnn.pad_sequence`), or fetch
the whole batch at once: a dataset with `__getitems__(indices)` and `collate_fn=lambda batch: batch`.

## When not
Where samples are large, copying them into one batch costs what memory bandwidth allows: return them in the
type that is needed on the device (bytes rather than float32).
"""

from __future__ import annotations

from perfdoctor.batch import BatchFacts, Stage, waits
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort, Estimate
from perfdoctor.model import Advice, Bottleneck, LoaderFacts, StepFacts

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.35  # of a batch's cost: removing half of it shortens the batch by a sixth
# What is left of collating: one copy of the batch is always needed. A loop over elements takes ten to a
# hundred times as long as one call that does the same; stacking large samples keeps most of its cost, because
# it is that copy.
KEPT_OWN, KEPT_TORCH = (0.5, 0.1, 0.01), (0.9, 0.6, 0.3)


@tip(
    title="Collate the batch in one call",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def slow_collate(step: StepFacts, loader: LoaderFacts, batch: BatchFacts) -> Advice | None:
    """The costliest line of the collate function, where the step waits for it."""
    share = batch.share(Stage.COLLATING)
    if step.held_up < NOTICEABLE or share < LARGE:
        return None
    lines = batch.lines(Stage.COLLATING)
    low, likely, high = sorted(share * (1 - kept) for kept in (KEPT_OWN if lines else KEPT_TORCH))
    where = f"line {lines[0].at.line} takes {lines[0].share:.0%} of the batch" if lines else None
    return Advice(
        because=(
            waits(step),
            f"collating takes {loader.collate_s * 1e3:.1f} of a batch's {batch.batch_s * 1e3:.1f} ms",
            where or "all of it in torch's own collate function, a call for each sample",
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(line.at for line in lines[:3]) or ((loader.at,) if loader.at else ()),
        code=None
        if lines
        else "def __getitems__(self, indices): return [self.data[indices]]  # one call per batch",
    )
