"""The same matrix is factorised again for each of its right-hand sides.

## What it sees
In a few sampled steps, `torch.linalg.solve` was given one matrix and a stack of right-hand sides over which
it was broadcast, or a stack of matrices that is one matrix expanded was inverted, factorised or decomposed.
torch copies the matrix, and factorises each copy: n³ operations in place of n² for each further side. In
backward it makes a gradient for each copy, and adds them up. The lines are named; their backward counts, too.

## By hand
    torch.linalg.solve(matrix, sides.mT).mT          # sides as columns: (n, k), not (k, n, 1)

    factors, pivots = torch.linalg.lu_factor(matrix)  # or keep the factors, where sides come one by one
    torch.linalg.lu_solve(factors, pivots, sides)

    inverse = torch.linalg.inv(matrix).expand(k, n, n)  # not torch.linalg.inv(matrix.expand(k, n, n))

## When not
The results are the same but for rounding.

Values are looked at where training runs on the CPU, without `torch.compile`.
"""

from __future__ import annotations

from perfdoctor.facts.script.repeated_factorizations import FactorizationLine, RepeatedFactorizationFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step that copies take
SHOWN = 3  # lines named
# Of what goes with the copies, the part that stays: each right-hand side is still to be solved for, which is
# much where matrices are small and little where they are large.
LEFT_LIKELY, LEFT_MOST = 0.1, 0.4


@tip(
    title="Factorise a matrix once for all its right-hand sides",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
    rivals=("tensor-loops", "uncompiled-model"),
)
def repeated_factorizations(step: StepFacts, repeated: RepeatedFactorizationFacts) -> Advice | None:
    """Advises one factorisation where copies of a matrix take a noticeable share of the step."""
    share, copies = repeated.share, repeated.repeated
    if share.likely * copies < NOTICEABLE or not repeated.lines:
        return None
    top = repeated.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share.likely * step.mean_s * 1e3
    what = f"{top.matrices:,} matrices" if top.matrices > 1 else "one matrix"
    spent = f"{share.likely:.0%} of each step ({ms:.1f} ms), backward included, factorises copies"
    return Advice(
        because=(
            f"{spent} of matrices, in {repeated.samples} sampled steps",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
            f"there, {top.function or 'a call'} factorises {what} of {top.width} × {top.width} {_times(top)}",
        ),
        change=removes(
            share.low * copies * (1 - LEFT_MOST),
            share.likely * copies * (1 - LEFT_LIKELY),
            share.high * copies,
        ),
        at=tuple(line.at for line in repeated.lines[:SHOWN]),
        code=(
            "torch.linalg.solve(matrix, sides.mT).mT  # sides as columns of one right-hand side"
            if "solve" in top.function
            else "torch.linalg.inv(matrix).expand(...)  # not of a matrix that is expanded already"
        ),
    )


def _times(line: FactorizationLine) -> str:
    return f"{line.times} times each" if line.matrices > 1 else f"{line.times} times"
