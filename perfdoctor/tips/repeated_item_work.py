"""Each item pays again for work that has the same result every time.

## What it sees
The step waits for batches, and a large part of their cost goes into lines of the dataset, the transforms or
the collate function that gave the same result in every item that was looked at: calls with equal arguments
and equal results, and variables set to equal values from equal values. A few batches of each process are
looked at; values are compared by their sizes and by parts of what they hold. Where few calls repeated an
earlier one, those that did tell how many different arguments there are: once all have come, each call repeats
one.

## By hand
    class Data(Dataset):
        def __init__(self, root):
            self.index = json.load(open(root / "index.json"))    # once, before workers start: they share it

        def __getitem__(self, i):
            return self.index[i]                                 # only what differs from item to item

In an `IterableDataset`: before the loop of `__iter__`. What some of the items share, and not all (a file that
holds a thousand of them), belongs into `functools.lru_cache`.

## When not
Where the result is changed afterwards, each item needs a copy of it. Files that other programs rewrite during
training have to be read again. Handles of files, databases and archives are best opened once in each worker,
when its first item is prepared, and not in `__init__`: processes must not share them.
"""

from __future__ import annotations

from perfdoctor.facts.data.item_work import How, RepeatedWork, RepeatedWorkFacts
from perfdoctor.model.batch import waits
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, StepFacts
from perfdoctor.tips._came_again import cached, came_again, goes
from perfdoctor.tips._repeated import repeated
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.10  # of a batch's cost
SAMPLES = 5  # in those lines: fewer may be chance
SHOWN = 3  # lines named


@tip(
    title="Do once what has the same result for every item",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=(
        "slow-dataset-code",
        "slow-collate",
        "repeated-decoding",
        "wasteful-parquet-reads",
        "oversized-reads",
    ),
)
def repeated_item_work(step: StepFacts, loader: LoaderFacts, repeated: RepeatedWorkFacts) -> Advice | None:
    """Names the lines whose cost could be paid once, where the step waits for batches."""
    share = repeated.share
    if step.data_stall < NOTICEABLE or share < LARGE or sum(one.samples for one in repeated.work) < SAMPLES:
        return None
    ms = loader.batch_s * 1e3
    shown = [one for one in repeated.work[:SHOWN] if one.share >= 0.1 * share]
    return Advice(
        because=(
            waits(step),
            f"{share:.0%} of a batch's {ms:.1f} ms goes into work that has the same result every time",
            *map(_said, shown),
        ),
        change=Change(batch=goes(share)),
        at=tuple(one.at for one in shown),
        code=_cure(shown[0]),
    )


def _said(one: RepeatedWork) -> str:
    if one.how is How.VALUE:
        did = f"it set `{one.name}` to the same value all {one.seen} times that were looked at"
    elif one.how is How.FILE:
        did = f"`{one.name}` opens the same file each time"
    else:
        did = came_again(one.name, one.seen, one.arguments, one.in_all)
    text = f": `{one.at.text}`" if one.at.text else ""
    return f"line {one.at.line} takes {one.share:.0%}: {did}{text}"


def _cure(one: RepeatedWork) -> str:
    """What to write instead of the costliest line."""
    shown = repeated(one.at) or "..."
    text = shown if shown.startswith("...") else shown.partition("  #")[0]  # without the line's own comment
    if one.arguments > 1:
        return cached(one.name)
    if one.how is How.VALUE and text.startswith(f"{one.name} = "):
        return f"self.{text}  # in __init__; items then use self.{one.name}"
    if one.how is How.CALL:
        return f"self.result = {one.name}(...)  # in __init__; items then use self.result"
    return f"# once, before the first item, and kept in self:\n{text}"
