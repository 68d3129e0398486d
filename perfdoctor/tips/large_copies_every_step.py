"""Each step copies large tensors that the step before copied too.

## What it sees
In a few sampled steps, calls that only copy or convert (`clone`, `deepcopy`, `cat`, `stack`, `tensor`,
`float`, `double`, `contiguous`, ...) were given tensors or arrays that the step before had copied, too, and
wrote several megabytes. Their lines are named, with the bytes.

Typical cases: the weights of a model copied after every update, a whole replay buffer joined to take one
batch of it, a data set converted to another type again and again, a buffer that grows by `torch.cat`.

New batches do not count, nor what gets gradients, nor what a DataLoader collates.

## By hand
    # weights: one copy, written in place, and only when it is needed
    if step % 100 == 0:
        for kept, new in zip(copies, model.parameters()):
            kept.copy_(new.detach())                 # a running average: kept.lerp_(new.detach(), 0.01)

    # a buffer: allocated once, filled and read by index
    buffer = torch.empty(capacity, width)            # before the loop
    buffer[step % capacity] = state
    batch = buffer[index]

    # a data set: converted once
    data = torch.tensor(array, dtype=torch.float32)  # before the loop

## When not
Where each step needs the old values in full, as in sharpness-aware minimisation (SAM) or a line search. Then
write them into memory that is there already (`copy_`): for a large copy, allocating new memory often takes
longer than copying.

Copies are compared where training runs on the CPU, without `torch.compile`. What numpy copies is not seen.
"""

from __future__ import annotations

from perfdoctor.facts.script.repeated_copies import CopyingLine, RepeatedCopyFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.units import size
from perfdoctor.tips._charged import charged
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of the step: some copying is part of any loop
# Bytes a step. A core's own cache holds 1 to 2 MB, and a copy reads as much as it writes: from here on copies
# go to memory. Where fewer bytes take long, the number of calls is to blame.
LARGE = 4e6
SURE = 0.5  # of it goes if every second step still copies
SHOWN = 3  # lines named
JOINS = frozenset("cat concat concatenate hstack vstack dstack stack".split())
CONVERTS = frozenset("tensor as_tensor asarray to type float double half bfloat16 contiguous".split())
BUFFER = """buffer = torch.empty(capacity, ...)  # once, before the loop
buffer[step % capacity] = item
batch = buffer[index]"""
ONCE = "data = data.float()  # once, before the loop"
RARELY = """if step % 100 == 0:  # not in every step, and into the same memory
    for kept, new in zip(copies, model.parameters()):
        kept.copy_(new.detach())"""


@tip(
    title="Do not copy large tensors in every step",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
    rivals=(
        "recomputed-constants",
        "copying-constructors",
        "batches-built-in-the-loop",
        "slow-postprocessing",
    ),
)
def large_copies_every_step(step: StepFacts, copies: RepeatedCopyFacts) -> Advice | None:
    """Advises fewer copies, or none, where the same is copied again in a noticeable share of the step."""
    share = copies.share
    if share.likely < NOTICEABLE or copies.bytes < LARGE or not copies.lines:
        return None
    top = copies.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    calls = f" (`{'`, `'.join(map(_shown, top.names))}`)" if top.names else ""
    ms = share.likely * step.mean_s * 1e3
    # Stack samples see the Python around the calls, and memory that is given back, too.
    high = min(1.0, max(share.high, sum(map(_seen, copies.lines))))
    copied = f"{share.likely:.0%} of each step ({ms:.1f} ms) copies {size(copies.bytes)}"
    return Advice(
        because=(
            f"{copied} that the step before copied too, in {copies.samples} sampled steps",
            f"line {top.at.line} copies the most, {size(top.bytes)}{calls}{text}",
        ),
        change=removes(SURE * share.low, share.likely, high),
        at=tuple(line.at for line in copies.lines[:SHOWN]),
        code=_cure(top),
        bottleneck=charged(top.phase, top.cost) if top.phase is not None else None,
    )


def _seen(line: CopyingLine) -> float:
    return max(line.share, line.cost.share if line.cost is not None else 0.0)


def _shown(name: str) -> str:
    return name.strip("_") if name.startswith("__") else name


def _cure(line: CopyingLine) -> str:
    """What helps, by the function that takes most."""
    name = line.names[0] if line.names else ""
    return BUFFER if name in JOINS else ONCE if name in CONVERTS else RARELY
