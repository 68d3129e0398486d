"""Each loader worker prepares the samples of all workers, and throws most of them away.

## What it sees
The step waits for batches of an `IterableDataset` with workers, which go through the whole stream and keep
every n-th sample (`index % num_workers == id` in a loop, a comprehension or a filter, or `islice` or a slice
with a step), and stack samples find a large part of a batch's cost before that choice: reading, parsing,
decoding. With n workers this work is done n times.

## By hand
    def __iter__(self):
        info = get_worker_info()
        for path in self.paths[info.id :: info.num_workers]:     # shares out files, before they are read
            yield from self.read(path)

Where there is one file only, share out what is cheap to go through: lines before they are parsed, offsets,
the names in an archive before its items are decoded.

## When not
Where samples can only be told apart once they are prepared. Files of very different sizes keep workers busy
for different times: more and smaller files, or shares by lines, even that out.
"""

from __future__ import annotations

from perfdoctor.facts.data.late_sharding import LateShardingFacts
from perfdoctor.model.batch import waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.25  # of a batch's cost, before the choice
SAMPLES = 5  # there: fewer may be chance
SURE = 0.5  # of the work of others: some of it may be needed to find a worker's own samples
# What makes the same work quicker, or spreads it over others: it need not be done at all.
QUICKER = ("slow-dataset-code", "slow-image-decode", "too-few-workers", "too-many-workers")


@tip(
    title="Share samples out before they are prepared",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=QUICKER,
    before=QUICKER,
)
def late_sharding(step: StepFacts, loader: LoaderFacts, late: LateShardingFacts) -> Advice | None:
    """Names the loop in which workers do each other's work, where the step waits for batches."""
    if step.data_stall < NOTICEABLE or late.share < LARGE or late.samples < SAMPLES:
        return None
    others = late.share * (1 - 1 / late.workers)
    ms = loader.batch_s * 1e3
    text = f": `{late.filter.text}`" if late.filter.text else ""
    before = f"{late.share:.0%} of a batch's {ms:.1f} ms comes before a worker chooses its samples"
    return Advice(
        because=(
            waits(step),
            f"{before} (line {late.filter.line}){text}",
            f"with {late.workers} workers that is done {late.workers} times",
        ),
        change=Change(batch=Estimate(SURE * others, others, others)),
        at=tuple(dict.fromkeys((late.at, late.filter))),
        code="paths[info.id :: info.num_workers]  # files or offsets, before they are read",
    )
