"""Items are prepared, or tensors read, one element or one row at a time.

## What it sees
A large part of what a batch costs, where the step waits for it, is a loop of the dataset, the transforms or
the collate function that makes a small call in each turn, or lines that take single rows out of a pandas data
frame. In a few items the calls are counted; what one costs follows from that. In the training loop itself:
such rows, and loops that read tensors number by number.

## By hand
    self.x = frame[COLUMNS].to_numpy("float32")     # pandas: once, in __init__
    row = self.x[index]                             # in place of frame.iloc[index]

    np.abs(wave[1:] - wave[:-1]).sum()              # NumPy: one call on the array, not one for each element

    x[chosen].tolist()                              # torch: one indexed operation
    correct += (pred == target).sum().item()        # and not (p == t).item() for each sample

    np.frombuffer(text.encode(), np.uint8)          # text: all characters at once

## When not
Where each turn needs the result of the one before. There, compile the loop (`numba.njit`), or prepare the
items once and keep the result in a file.
"""

from __future__ import annotations

from perfdoctor.facts.data.small_calls import Library, SmallCallFacts, SmallCalls
from perfdoctor.model.batch import waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck, class_of
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.25  # of a batch's cost in one place
OF_STEP = 0.08  # of the step, in the training loop
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
    Library.TEXT: "# the whole text at once: pattern.findall, str.translate, or np.frombuffer on its bytes",
    Library.OTHER: "# one call on the whole array or list, or the result of each item kept from the start",
}
# Each of these goes through the list until it meets the value.
SEARCHES = frozenset(("list.index", "tuple.index", "list.count", "tuple.count"))
LOOK_UP = (
    "places = {value: place for place, value in enumerate(values)}  # once; a Counter for counts\n"
    "places.get(value)  # in place of values.index(value), and of `value in values`"
)


READ_AT_ONCE = (
    "# all samples at once, and one number at the end: (pred == target).sum().item(), pred.tolist(),\n"
    "# torch.bincount(target[pred == target]) for each class"
)


@tip(
    title="Make one call in place of many small ones",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=(
        "slow-dataset-code",
        "slow-collate",
        "repeated-item-work",
        "batches-built-in-the-loop",
        "tensor-loops",
        "slow-postprocessing",
    ),
)
def many_small_calls(step: StepFacts, calls: SmallCallFacts) -> Advice | None:
    """Names the loop or the row access, what it calls and how often, where the step pays for it."""
    waiting = step.data_stall >= NOTICEABLE
    places = [one for one in calls.places if one.in_step or waiting]
    places = [
        one for one in places if one.samples >= SAMPLES and one.share >= (OF_STEP if one.in_step else LARGE)
    ]
    if not places:
        return None
    in_step = min(1.0, sum(one.share for one in places if one.in_step))
    in_batch = min(1.0, sum(one.share for one in places if not one.in_step))
    classes = dict.fromkeys(_class(one) for one in places)
    said = (_said(one, (step.mean_s if one.in_step else calls.batch_s) * 1e3) for one in places[:SHOWN])
    return Advice(
        because=(*([waits(step)] if in_batch else []), *said),
        change=Change(step=_gone(in_step), batch=_gone(in_batch)),
        at=tuple(at for one in places[:SHOWN] for at in _places(one))[:SHOWN],
        bottleneck=next(iter(classes)),
        also=tuple(classes)[1:],
        code=_cure(places[0]),
        spares=tuple(line for one in places for line in one.spares),
    )


def _cure(one: SmallCalls) -> str:
    if one.loop is not None:
        return f"{one.whole}  # all samples at once" if one.whole else READ_AT_ONCE
    return LOOK_UP if one.callee in SEARCHES else CURES[one.library]


def _places(one: SmallCalls) -> tuple[Location, ...]:
    """The loop first, where it is one that reads tensors."""
    if one.loop is None or one.loop == one.at.line:
        return (one.at,)
    return Location(one.at.file, one.loop, one.at.function), one.at


def _class(one: SmallCalls) -> Bottleneck:
    """Whose time goes: that of batches, or in the training loop what the verdict charges the place to."""
    return class_of(Phase.OTHER, one.kind) if one.in_step else Bottleneck.DATA


def _gone(share: float) -> Estimate:
    return Estimate(*(share * (1 - kept) for kept in KEPT))


def _said(one: SmallCalls, of_ms: float) -> str:
    rows = one.library is Library.PANDAS
    what = "takes single rows out of a data frame" if rows else f"calls `{one.callee}`"
    often = f", {one.per_item:.0f} times for each item" if one.per_item else "" if rows else " in a loop"
    of = "the step's" if one.in_step else "a batch's"
    text = f": `{one.at.text}`" if one.at.text else ""
    said = f"line {one.at.line} {what}{often}"
    if one.loop is not None:
        most = "" if one.loop == one.at.line else f", most of it at line {one.at.line}"
        said = f"the loop at line {one.loop} reads tensors number by number{most}"
    return f"{said}; that is {one.share:.0%} of {of} {of_ms:.1f} ms{text}"
