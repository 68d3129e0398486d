"""Batches arrive late because collating the samples takes most of their cost.

## What it sees
The step waits for batches, and the collate function takes a large part of a batch's cost: it is timed in the
process that collates, and stack samples find the line.

## By hand
Allocate one array for the batch and fill it in one call (`np.stack`, `torch.nn.utils.rnn.pad_sequence`), or
fetch the whole batch at once: a dataset with `__getitems__(indices)`, and a collate function that returns
what it is given. Define it in the module: where workers are not forked, a lambda cannot be sent to them.

## When not
Where samples are large, memory bandwidth limits copying them into one batch: return them in the type that the
device needs (bytes instead of float32).
"""

from __future__ import annotations

from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.35  # of a batch's cost: removing half of it shortens the batch by a sixth
# What is left of collating: one copy of the batch is always needed. A loop over elements takes ten to a
# hundred times as long as one call that does the same; stacking large samples keeps most of its cost, because
# it is that copy.
KEPT_OWN, KEPT_TORCH = (0.5, 0.1, 0.01), (0.9, 0.6, 0.3)
TORCH, SEEN = "torch", 0.05  # of a batch: less may be a sample that was torn
# Not a lambda: it could not be sent to workers that are not forked.
WHOLE = """\
def __getitems__(self, indices): return self.data[indices]  # of the dataset
def as_it_is(rows): return rows  # in the module: collate_fn=as_it_is"""


@tip(
    title="Collate the batch in one call",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def slow_collate(step: StepFacts, loader: LoaderFacts, batch: BatchFacts) -> Advice | None:
    """Names the costliest line of the collate function, where the step waits for it."""
    share = batch.share(Stage.COLLATING)
    if step.data_stall < NOTICEABLE or share < LARGE:
        return None
    lines = batch.lines(Stage.COLLATING)
    low, likely, high = sorted(share * (1 - kept) for kept in (KEPT_OWN if lines else KEPT_TORCH))
    by = _whose(batch)
    where = f"line {lines[0].at.line} takes {lines[0].share:.0%} of the batch" if lines else None
    return Advice(
        because=(
            waits(step),
            f"collating takes {loader.collate_s * 1e3:.1f} ms of a batch's {batch.batch_s * 1e3:.1f} ms",
            where or f"all of it in the collate function of {by}, one call per sample",
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(line.at for line in lines[:3]) or ((loader.at,) if loader.at else ()),
        code=WHOLE if not lines and by == TORCH else None,
    )


def _whose(batch: BatchFacts) -> str:
    """The library whose collate function it is: others call torch's, and not the other way round."""
    costs = [cost for cost in batch.of(Stage.COLLATING) if cost.library not in (None, TORCH, "numpy")]
    return next((cost.library for cost in costs if cost.library and cost.share >= SEEN), TORCH)
