"""Each step works on whole matrices that hold nothing but a diagonal.

## What it sees
In a few sampled steps, matrices were factorised, inverted, solved with or multiplied by of which only the
diagonal was not zero. Their lines are named. Making and checking them counts as well, and their backward.

The typical case: `MultivariateNormal(mean, torch.diag_embed(std**2))`, or `scale_tril=torch.diag_embed(std)`,
for numbers that are independent of each other, as in policies, variational autoencoders and mixture density
networks. It checks and factorises each matrix, `log_prob` solves with it, `rsample` multiplies by it.

## By hand
    Independent(Normal(mean, std), 1)    # MultivariateNormal(mean, torch.diag_embed(std**2))
    values / diagonal                    # torch.linalg.solve(torch.diag_embed(diagonal), values)
    diagonal.log().sum(-1)               # torch.logdet(torch.diag_embed(diagonal))
    diagonal * values                    # torch.diag_embed(diagonal) @ values, of vectors

Samples, `log_prob`, `entropy` and `kl_divergence` are the same; both sides of a `kl_divergence` must be
described so.

## When not
Where the matrix is fuller in later steps: a covariance that is learned, say, and begins as the identity.

Values are looked at where training runs on the CPU, without `torch.compile`.
"""

from __future__ import annotations

from perfdoctor.facts.script.diagonal_matrices import DiagonalMatrixFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.08  # share of the step
SHOWN = 3  # lines named
# What element-wise operations leave of that time: a part of it for small matrices, where calls cost most, and
# next to nothing for large ones.
LEFT_LIKELY, LEFT_MOST = 0.1, 0.4
DISTRIBUTION = "Independent(Normal(mean, std), 1)  # not: MultivariateNormal(mean, torch.diag_embed(std**2))"
ELEMENTS = """values / diagonal  # not: torch.linalg.solve(torch.diag_embed(diagonal), values)
diagonal.log().sum(-1)  # not: torch.logdet(torch.diag_embed(diagonal))
diagonal * values  # not: torch.diag_embed(diagonal) @ values"""


@tip(
    title="Compute with a diagonal element by element",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
    rivals=("tensor-loops", "uncompiled-model"),
)
def diagonal_matrices(step: StepFacts, diagonals: DiagonalMatrixFacts) -> Advice | None:
    """Advises element-wise work where whole diagonal matrices take a noticeable share of the step."""
    share = diagonals.share
    if share.likely < NOTICEABLE or not diagonals.lines:
        return None
    top = diagonals.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share.likely * step.mean_s * 1e3
    what = f"{top.matrices:,} matrices of {top.width} × {top.width}" if top.matrices > 1 else "its matrix"
    called = f" ({', '.join(top.functions)})" if top.functions else ""
    spent = f"{share.likely:.0%} of each step ({ms:.1f} ms), backward included, is work on whole matrices"
    return Advice(
        because=(
            f"{spent} that are zero off their diagonal, in {diagonals.samples} sampled steps",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
            f"there, only the diagonal of {what} is not zero{called}",
        ),
        change=removes(share.low * (1 - LEFT_MOST), share.likely * (1 - LEFT_LIKELY), share.high),
        at=tuple(line.at for line in diagonals.lines[:SHOWN]),
        code=DISTRIBUTION if top.distribution else ELEMENTS,
    )
