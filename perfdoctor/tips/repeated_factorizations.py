"""The same matrix is factorised again, for each of its right-hand sides or in call after call.

## What it sees
In a few sampled steps, `torch.linalg.solve` was given one matrix and a stack of right-hand sides over which
it was broadcast, or a stack of matrices that is one matrix expanded was inverted, factorised or decomposed.
torch copies the matrix, and factorises each copy: n³ operations in place of n² for each further side. In
backward it makes a gradient for each copy, and adds them up. Or a call was given the matrix of an earlier one
of the same step, or of the step before: the time steps of a solver, say, whose operator stays the same. The
lines are named; their backward counts, too.

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
from perfdoctor.model.units import count
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step that copies take
SHOWN = 3  # lines named
# Of what goes with the copies, the part that stays: each right-hand side is still to be solved for, which is
# much where matrices are small and little where they are large.
LEFT_LIKELY, LEFT_MOST = 0.1, 0.4

SIDES = "torch.linalg.solve(matrix, sides.mT).mT  # sides as columns of one right-hand side"
OF_ONE = "torch.linalg.inv(matrix).expand(...)  # not of a matrix that is expanded already"
KEPT_FACTORS = """\
factors = torch.linalg.lu_factor(matrix)  # once, while the matrix stays as it is
torch.linalg.lu_solve(*factors, sides)"""
KEPT_RESULT = "kept = ...  # the result, while the matrix stays as it is"


@tip(
    title="Factorise a matrix once for all its right-hand sides",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
    rivals=("tensor-loops", "uncompiled-model"),
)
def repeated_factorizations(step: StepFacts, repeated: RepeatedFactorizationFacts) -> Advice | None:
    """Advises one factorisation where those of the same matrix take a noticeable share of the step."""
    share, copies = repeated.share, repeated.repeated
    if share.likely * copies < NOTICEABLE or not repeated.lines:
        return None
    top = repeated.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share.likely * step.mean_s * 1e3
    spent = f"{share.likely:.0%} of each step ({ms:.1f} ms), backward included, factorises"
    what = "matrices again" if top.again else "copies of matrices"
    return Advice(
        because=(
            f"{spent} {what}, in {repeated.samples} sampled steps",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
            f"there, {top.function or 'a call'} {_does(top)}",
        ),
        change=removes(
            share.low * copies * (1 - LEFT_MOST),
            share.likely * copies * (1 - LEFT_LIKELY),
            share.high * copies,
        ),
        at=tuple(line.at for line in repeated.lines[:SHOWN]),
        code=_code(top),
    )


def _does(line: FactorizationLine) -> str:
    size = f"{line.width} × {line.width}"
    if line.again:
        calls = count(line.again, "call")
        return f"is given a matrix of {size} that it was given before, in {calls} of the step"
    what = f"{line.matrices:,} matrices" if line.matrices > 1 else "one matrix"
    return f"factorises {what} of {size} {_times(line)}"


def _code(line: FactorizationLine) -> str:
    if line.again:
        return KEPT_FACTORS if "solve" in line.function else KEPT_RESULT
    return SIDES if "solve" in line.function else OF_ONE


def _times(line: FactorizationLine) -> str:
    return f"{line.times} times each" if line.matrices > 1 else f"{line.times} times"
