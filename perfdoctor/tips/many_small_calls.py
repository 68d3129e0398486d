"""Batches arrive late because items are prepared one element or one row at a time.

## What it sees
The step waits for batches, and a large part of their cost is a loop of the dataset, the transforms or the
collate function that makes a small call in each turn, or lines that take single rows out of a pandas data
frame. In a few items the calls are counted; what one costs follows from that.

## By hand
    self.x = frame[COLUMNS].to_numpy("float32")     # pandas: once, in __init__
    row = self.x[index]                             # in place of frame.iloc[index]

    np.abs(wave[1:] - wave[:-1]).sum()              # NumPy: one call on the array, not one for each element

    x[chosen].tolist()                              # torch: one indexed operation

    np.frombuffer(text.encode(), np.uint8)          # text: all characters at once

## When not
Where each turn needs the result of the one before. There, compile the loop (`numba.njit`), or prepare the
items once and keep the result in a file.
"""

from __future__ import annotations

from perfdoctor.facts.data.small_calls import Library, SmallCallFacts, SmallCalls
from perfdoctor.model.batch import waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.25  # of a batch's cost in one place
SAMPLES = 5  # in its lines: fewer may be chance
SHOWN = 3  # places named
# What is left: one call does the work of a loop in a tenth to a hundredth of its time; a row of an array
# takes a microsecond, one of a data frame fifty to a hundred.
KEPT = (0.5, 0.1, 0.01)
CURES = {
    Library.PANDAS: "self.x = frame[columns].to_numpy()  # once, in __init__\n"
    "self.x[index]  # in place of frame.iloc[index]",
    Library.NUMPY: "# one NumPy call on the whole array, in place of one for each element",
    Library.TORCH: "# one operation on the whole tensor: x[indices], a mask, torch.stack once",
    Library.TEXT: "# for the whole text at once: str.translate, or np.frombuffer(text.encode(), np.uint8)",
    Library.OTHER: "# one call on the whole array or list, or the result of each item kept from the start",
}


@tip(
    title="Prepare an item in few calls, not in many small ones",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=("slow-dataset-code", "slow-collate", "repeated-item-work"),
)
def many_small_calls(step: StepFacts, loader: LoaderFacts, calls: SmallCallFacts) -> Advice | None:
    """Names the loop or the row access, what it calls and how often, where the step waits for batches."""
    places = [one for one in calls.places if one.share >= LARGE and one.samples >= SAMPLES]
    if step.data_stall < NOTICEABLE or not places:
        return None
    share = min(1.0, sum(one.share for one in places))
    low, likely, high = (share * (1 - kept) for kept in KEPT)
    return Advice(
        because=(waits(step), *(_said(one, loader.batch_s * 1e3) for one in places[:SHOWN])),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(one.at for one in places[:SHOWN]),
        code=CURES[places[0].library],
    )


def _said(one: SmallCalls, batch_ms: float) -> str:
    what = (
        "takes single rows out of a data frame" if one.library is Library.PANDAS else f"calls `{one.callee}`"
    )
    often = f", {one.per_item:.0f} times for each item" if one.per_item else ""
    text = f": `{one.at.text}`" if one.at.text else ""
    return f"line {one.at.line} {what}{often}; that is {one.share:.0%} of a batch's {batch_ms:.1f} ms{text}"
