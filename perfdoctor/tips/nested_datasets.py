"""Each item is looked up through many datasets, one wrapped around the other.

## What it sees
The step waits for batches, and a large part of their cost is the own time of torch's `Subset` and
`ConcatDataset`, which stack samples find many deep: each item passes through all of them. Active learning,
curricula, replay of past tasks and splits of splits wrap what they wrapped in the round before.

## By hand
    indices = [*labelled.indices, *chosen]      # into the base dataset; `chosen` as well
    labelled = Subset(base, indices)            # one flat subset, whatever the round

Keep indices into the base dataset for each part, and make datasets of them only where a loader needs one. A
`ConcatDataset` of several base datasets is made once, from all of them, as the base.

## When not
One or two wrappers, as of a split for validation, cost next to nothing.
"""

from __future__ import annotations

from perfdoctor.facts.data.nested_datasets import NestedDatasets
from perfdoctor.model.batch import waits
from perfdoctor.model.change import NOTHING, Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.25  # of a batch's cost
SAMPLES = 5  # there: fewer may be chance
SURE = 0.8  # of the wrappers' own time, as sampled: one flat subset stays
# Of their samples, in the measure of the others: deep stacks change while they are read.
LOST = (0.0, 0.5, 1.0)
SHOWN = 3  # lines named
# What keeps the results, makes the same work quicker or spreads it: it need not be done at all.
QUICKER = ("slow-dataset-code", "repeated-items", "too-few-workers", "too-many-workers")


@tip(
    title="Keep indices into the base dataset instead of wrapping it again",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=QUICKER,
    before=QUICKER,
)
def nested_datasets(step: StepFacts, loader: LoaderFacts, nested: NestedDatasets) -> Advice | None:
    """Names the lines that wrap again and again, where the step waits for items to come through."""
    if step.data_stall < NOTICEABLE or nested.share < LARGE or nested.samples < SAMPLES:
        return None
    low, likely, high = (nested.share * (1.0 + lost * (1.0 - nested.share)) for lost in LOST)
    goes = Estimate(SURE * low, likely, high)
    batch_ms = loader.batch_s * 1e3
    least = "at least " if nested.is_cut else ""
    wrapped = next((f": `{at.text}`" for at in nested.at if at.text), "")
    return Advice(
        because=(
            waits(step),
            f"{nested.share:.0%} of a batch's {batch_ms:.1f} ms is spent in `Subset` and `ConcatDataset`",
            f"items usually pass through {nested.typical} of them, {least}{nested.deepest} at most",
            *(f"line {at.line} wraps{wrapped}" for at in nested.at[:1]),
        ),
        change=Change(batch=goes, others=_others(step, loader, goes)),
        at=nested.at[:SHOWN],
        code="indices = [*indices, *chosen]  # into the base dataset\nlabelled = Subset(base, indices)",
    )


def _others(step: StepFacts, loader: LoaderFacts, goes: Estimate) -> Estimate:
    """What goes from the waits for other loaders: without workers, samples are of them, too."""
    if loader.num_workers or step.mean_s <= 0:
        return NOTHING
    waited = min(1.0, loader.others_wait_s / step.mean_s)
    return Estimate(goes.low * waited, goes.likely * waited, goes.high * waited)
