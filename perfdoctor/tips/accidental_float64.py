"""The model computes in double precision, often because NumPy's default type leaked in.

## What it sees
Most of the model's parameters are float64, and computing takes a large part of the step. The report names the
lines that introduce double precision, as far as the calls or the text of the script show them. Of a trace
alone: kernels that compute in float64 take most of the device's time.

## By hand
    torch.from_numpy(array).float()        # NumPy creates float64 by default
    np.zeros(n, dtype=np.float32)
    model.float()

## When not
Where double precision is intended: solvers, Gaussian processes, gradient checks.
"""

from __future__ import annotations

from perfdoctor.facts.script.double_precision import DoublePrecision
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip

MOSTLY = 0.5  # of the parameters, or of the kernels' time
NOTICEABLE = 0.10  # share of the step that computes
LINES = 3


@tip(
    title="Compute in single precision",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    kernels_only=True,
)
def accidental_float64(doubles: DoublePrecision) -> Advice | None:
    """Advises float32 where computing in float64 takes a large part of the step."""
    if doubles.share < MOSTLY or doubles.computing < NOTICEABLE:
        return None
    of_what = f"of {doubles.parameters:,} parameters are" if doubles.parameters else "of computing is in"
    named = doubles.widened[:LINES]
    return Advice(
        because=(
            f"{doubles.share:.0%} {of_what} float64",
            f"computing is {doubles.computing:.0%} of the step",
            *(f"line {at.line}: {what}" for what, at in named),
        ),
        change=removes(*doubles.gone),
        at=tuple(at for _, at in named) or ((doubles.at,) if doubles.at else ()),
        # of several types, they may be meant; a trace knows no parameters
        tweak="--float32" if doubles.parameters and doubles.share == 1.0 else None,
        same_result=False,
        code="torch.from_numpy(array).float()\nmodel.float()",
    )
