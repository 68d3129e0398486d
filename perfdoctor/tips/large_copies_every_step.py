"""Each step copies large tensors that the step before copied too.

## What it sees
In a few sampled steps, calls that only copy or convert (`clone`, `deepcopy`, `cat`, `stack`, `tensor`,
`float`, `double`, `contiguous`, ...) were given tensors or arrays that the step before had copied, too, and
wrote several megabytes. Their lines are named, with the bytes.

Typical cases: the weights or gradients of a model copied or joined in every step, a whole replay buffer
joined to take one batch of it, a dataset converted to another type again and again, a buffer that grows by
`torch.cat`.

New batches do not count, nor what gets gradients, nor what a DataLoader collates. Gradients count where they
stay in the same memory, as with `zero_grad(set_to_none=False)`.

## By hand
    # weights: one copy, written in place, and only in steps that read it
    if step % 100 == 0:
        for kept, new in zip(copies, model.parameters()):
            kept.copy_(new.detach())                 # a running average: kept.lerp_(new.detach(), 0.01)

    # gradients: no copy for what is read from them, as their norm
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)

    # a buffer: allocated once, filled and read by index
    buffer = torch.empty(capacity, width)            # before the loop
    buffer[step % capacity] = state
    batch = buffer[index]

    # a dataset: converted once
    data = torch.tensor(array, dtype=torch.float32)  # before the loop

## When not
Where each step needs the old values in full, as in sharpness-aware minimisation (SAM) or a line search. Then
write them into memory that is there already (`copy_`, or `torch.cat(..., out=flat)`): for a large copy,
allocating new memory often takes longer than copying. Where the source does not show that no update needs a
copy of weights, no more than that is expected to go. Copies that are kept, one of each step, need memory of
their own.

Copies are compared where training runs on the CPU, without `torch.compile`. What numpy copies is not seen.
"""

from __future__ import annotations

from textwrap import indent

from perfdoctor.facts.script.repeated_copies import CopyingLine, RepeatedCopyFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck, class_of
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.units import size
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of the step: some copying is part of any loop
# Bytes a step. A core's own cache holds 1 to 2 MB, and a copy reads as much as it writes: from here on copies
# go to memory. Where fewer bytes take long, the number of calls is to blame.
LARGE = 4e6
SURE = 0.5  # of it goes if every second step still copies
# What goes of a copy's time where it is written into memory that is there already: nothing where the
# allocator hands out what it got back, up to nine tenths where it maps new pages. In two measurements the
# medians were a fifth for single tensors and four fifths for joined ones (bench/copies.py).
IN_PLACE = 0.3
SHOWN = 3  # lines named
JOINS = frozenset("cat concat concatenate hstack vstack dstack stack".split())
CONVERTS = frozenset("tensor as_tensor asarray to type float double half bfloat16 contiguous".split())
BUFFER = """buffer = torch.empty(capacity, ...)  # once, before the loop
buffer[step % capacity] = item
batch = buffer[index]"""
ONCE = "data = data.float()  # once, before the loop"
WEIGHTS = """for kept, new in zip(copies, model.parameters()):
    kept.copy_(new.detach())"""
GRADIENTS = """for kept, weight in zip(copies, model.parameters()):
    kept.copy_(weight.grad)"""
JOINED_GRADIENTS = "torch.cat([weight.grad.flatten() for weight in model.parameters()], out=flat)"
JOINED = "torch.cat([weight.detach().flatten() for weight in model.parameters()], out=flat)"
RARELY = "if step % 100 == 0:  # not in every step, and into the same memory\n"
WHERE_READ = "# into the same memory, and only in steps that read it\n"


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
    lines = [line for line in copies.lines if _goes(line) > 0]
    if not lines:
        return None
    every = sum(line.share for line in copies.lines)
    part = sum(line.share for line in lines) / every if every > 0 else 1.0
    if share.likely * part < NOTICEABLE or copies.bytes < LARGE:
        return None
    goes = sum(line.share * _goes(line) for line in lines) / every if every > 0 else _goes(lines[0])
    sure = sum(line.share for line in lines if _goes(line) == 1) / every if every > 0 else 0.0
    top = lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    calls = f" (`{'`, `'.join(map(_shown, top.names))}`)" if top.names else ""
    ms = share.likely * step.mean_s * 1e3
    # Stack samples see the Python around the calls, and memory that is given back, too.
    high = min(1.0, max(share.high * part, sum(map(_seen, lines))))
    copied = f"{share.likely:.0%} of each step ({ms:.1f} ms) copies {size(copies.bytes)}"
    what = "weights" if top.weights else "gradients"
    kind = top.cost.kind if top.cost is not None else None
    kept = (f"an update may need the old {what}, so only the memory allocation can be saved",)
    return Advice(
        because=(
            f"{copied} that the step before copied too, in {copies.samples} sampled steps",
            f"line {top.at.line} copies the most, {size(top.bytes)}{calls}{text}",
            *(kept if _goes(top) < 1 else ()),
        ),
        change=removes(SURE * share.low * sure, min(high, share.likely * goes), high),
        at=tuple(line.at for line in lines[:SHOWN]),
        code=_cure(top),
        bottleneck=class_of(top.phase, kind) if top.phase is not None else None,
    )


def _goes(line: CopyingLine) -> float:
    """Which part of a line's copies may well be saved, without changing what the updates do."""
    if not (line.weights or line.gradients) or line.reported:
        return 1.0
    return 0.0 if _function(line) == "copy_" else IN_PLACE  # that is in place already


def _function(line: CopyingLine) -> str:
    """The one that takes most."""
    return line.names[0] if line.names else ""


def _seen(line: CopyingLine) -> float:
    return max(line.share, line.cost.share if line.cost is not None else 0.0)


def _shown(name: str) -> str:
    return name.strip("_") if name.startswith("__") else name


def _cure(line: CopyingLine) -> str:
    """What helps, by the function that takes most; weights and gradients are no items of a buffer."""
    name = _function(line)
    if line.weights or line.gradients:
        joined, apart = (JOINED, WEIGHTS) if line.weights else (JOINED_GRADIENTS, GRADIENTS)
        form = joined if name in JOINS else apart
        return RARELY + indent(form, "    ") if line.reported else WHERE_READ + form
    if name in JOINS:
        return BUFFER
    return ONCE if name in CONVERTS else RARELY + indent(WEIGHTS, "    ")
