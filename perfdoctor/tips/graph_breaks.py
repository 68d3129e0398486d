"""What torch.compile compiles is cut into pieces by code that it cannot compile.

## What it sees
torch's own account of where a graph ended in the middle of a function, and why: `print`, `.item()`, a branch
on the value of a tensor, a call into another library. Each piece is checked, called and differentiated apart,
and nothing is fused across the break.

## By hand
    y = torch.where(x.abs() > limit, x / 2, x)     # instead of `if x.abs().max() > limit:`
    losses.append(loss.detach())                   # `.item()` after the step, outside of what is compiled

`torch.compile(model, fullgraph=True)` ends with an error at the first break instead of going on;
`TORCH_LOGS=graph_breaks` prints all of them.

## When not
A break between large pieces of work costs nothing that can be measured. So this is only told where the
pieces are short for what each of them costs.
"""

from __future__ import annotations

from perfdoctor.facts.script.compiling import CompilingFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.units import count
from perfdoctor.tips.catalogue import tip

BREAK_S = 10e-6  # guards, a call and a node of autograd more: 3 to 10 us of a CPU, timed with torch 2.13
MOST_S = 100e-6  # with what could be fused across it, which nobody measured
NOTICEABLE = 0.02  # share of the step
SHOWN = 3


@tip(
    title="Compile the step without graph breaks",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
)
def graph_breaks(step: StepFacts, compiling: CompilingFacts) -> Advice | None:
    """Names the places where graphs break, if the step is short for what that costs."""
    breaks = compiling.breaks
    if not breaks or step.mean_s <= 0 or BREAK_S * len(breaks) < NOTICEABLE * step.mean_s:
        return None
    reasons = [
        f"line {broken.at.line}: {broken.reason}" if broken.at is not None else broken.reason
        for broken in breaks[:SHOWN]
    ]
    more = [f"and {count(len(breaks) - SHOWN, 'more place')}"] if len(breaks) > SHOWN else []
    places = f"{len(breaks)} places" if len(breaks) > 1 else "one place"
    return Advice(
        because=(
            f"a compiled graph breaks at {places}, in steps of {step.mean_s * 1e3:.1f} ms",
            *reasons,
            *more,
        ),
        change=removes(
            0.0, min(1.0, BREAK_S * len(breaks) / step.mean_s), min(1.0, MOST_S * len(breaks) / step.mean_s)
        ),
        at=tuple(broken.at for broken in breaks[:SHOWN] if broken.at is not None),
        tweak="--no-compile",
        same_result=False,
    )
