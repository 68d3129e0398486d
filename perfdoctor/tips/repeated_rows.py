"""A module computes the same row of a batch several times over.

## What it sees
In sampled steps, the rows of all that a costly module was given are compared bit by bit, and what it
returned for equal ones. Here each row came several times, or equal rows lay next to each other, and what
came out was the same but for rounding. The finding names the outermost call whose rows all repeat, and the
line that repeats them, if the file shows it: `repeat_interleave`, `expand`, an index. Examples: a profile
that is encoded again for each of its candidates, an anchor for each of its negatives. Rows that are alike by
chance, drawn with replacement or of few categories, and rows of padding are not meant.

## By hand
    encoded = encoder(profiles)                      # (people, width), not people * choices rows
    encoded = encoded.repeat_interleave(choices, 0)  # what it returns is repeated

    rows, which = torch.unique(profiles, dim=0, return_inverse=True)  # without a pattern
    encoded = encoder(rows)[which]

Where the samples of a loader's batch repeat already, as with several captions of one picture, have the
collate function return each picture once, and the index.

## When not
With dropout inside, all copies of a row share what is drawn for it. Where their difference is the point, as
in losses that compare passes of one input, or in samples of a posterior, leave it.

Batch normalisation gives the same where each row comes equally often; its running variance differs by the
factor of Bessel's correction, n / (n - 1), which is for fewer rows now.

What a call costs with any number of rows stays: launching its operations, reading its weights, and writing
their gradients. Rows are compared where training runs on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.facts.script.repeated_rows import RepeatedRowFacts, RepeatedRowsLine
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
# What stays, for any number of rows: launching an operation and its backward, at most, likely and at least;
OPERATION_S = (30e-6, 10e-6, 3e-6)
# and three passes over the weights, to read them twice and to write their gradients, at the pace of memory.
WEIGHT_PASSES = 3
BYTES_PER_S = (3e9, 10e9, 40e9)
GONE = (0.8, 1.0, 1.0)  # of the rest: small batches use the machine less well
SHOWN = 3  # lines named


@tip(
    title="Encode each row once, and repeat what comes out",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    rivals=("uncompiled-model", "repeated-forward"),
)
def repeated_rows(step: StepFacts, repeated: RepeatedRowFacts) -> Advice | None:
    """Advises distinct rows only where repeated ones take a noticeable share of the step."""
    if not repeated.lines or step.mean_s <= 0:
        return None
    cases = zip(
        (repeated.share.low, repeated.share.likely, repeated.share.high),
        OPERATION_S,
        BYTES_PER_S,
        GONE,
        strict=True,
    )
    low, likely, high = (
        gone * repeated.repeated * max(0.0, share - _stays_s(repeated, operation_s, pace) / step.mean_s)
        for share, operation_s, pace, gone in cases
    )
    if likely < NOTICEABLE:
        return None
    top = repeated.lines[0]
    places = [place for line in repeated.lines[:SHOWN] for place in (line.at, line.repeated_at)]
    return Advice(
        because=tuple(_because(step, repeated)),
        change=removes(low, likely, high),
        at=tuple(dict.fromkeys(place for place in places if place is not None))[:SHOWN],
        same_result=not any(line.by_chance or line.normalised for line in repeated.lines),
        code=_code(top),
    )


def _because(step: StepFacts, repeated: RepeatedRowFacts) -> Iterator[str]:
    top, share = repeated.lines[0], repeated.share.likely
    text = f": `{top.at.text}`" if top.at.text else ""
    spent = f"{share:.0%} of each step ({share * step.mean_s * 1e3:.1f} ms), backward included"
    yield f"{spent}, computes rows of which {repeated.repeated:.0%} were there before"
    of_them = f"{top.rows:,} rows, {top.distinct:,} of them different"
    yield f"line {top.at.line} gives {top.module} {of_them}, in {repeated.samples} sampled steps{text}"
    if top.repeated_at is not None and top.repeated_at.line != top.at.line:
        yield f"they are repeated on line {top.repeated_at.line}: `{top.repeated_at.text}`"
    if any(line.by_chance for line in repeated.lines):
        yield "dropout draws other numbers for each copy; computed once, all copies share them"
    if any(line.normalised for line in repeated.lines):
        yield "batch normalisation inside gives the same, but for its running variance"


def _stays_s(repeated: RepeatedRowFacts, operation_s: float, bytes_per_s: float) -> float:
    """Seconds that the calls take with any number of rows."""
    return sum(
        line.operations * operation_s + WEIGHT_PASSES * line.weight_bytes / bytes_per_s
        for line in repeated.lines
    )


def _code(line: RepeatedRowsLine) -> str:
    if line.distinct == 1:
        return "encoded = module(row[None]).expand(rows, -1)  # computed once, shared by all rows"
    if line.times and line.together:
        return f"encoded = module(distinct).repeat_interleave({line.times}, 0)  # what comes out is repeated"
    if line.times:
        return f"encoded = module(distinct).repeat({line.times}, 1)  # what comes out is repeated"
    return (
        "distinct, which = torch.unique(rows, dim=0, return_inverse=True)\n"
        "encoded = module(distinct)[which]  # what comes out is repeated"
    )
