"""Python loops over the elements of tensors, with a small operation for each.

## What it sees
Stack samples in the model, and between it and the loss: lines inside two or more loops, in addition to the
training loop, or in one loop that runs many small operators in each step, take a noticeable share of it. No
iteration depends on the one before; all of them may add to a sum, or fill a tensor or a list. A loop or a
comprehension whose turns call a function counts with all that it does. On a device it counts where the device
waits for the host, and no more than it waits.

## By hand
    distance = torch.cdist(embedding, embedding)                 # all pairs at once
    hardest = distance.masked_fill(~same, -torch.inf).amax(1)    # a mask in place of `if`

Each small operation costs microseconds to call, and again in backward, and an `if` on a tensor waits for its
value.

## When not
Where each iteration needs the result of the one before, as in a recurrence. There, `torch.compile` or a fused
implementation (`nn.LSTM`, a scan) helps.
"""

from __future__ import annotations

from perfdoctor.facts.host.tensor_loops import TensorLoopFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips._python_loops import LEFT, gone, shares, waiting
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.08  # share of the step
SEEN = 5  # samples in those lines: fewer may be chance
LEAST_SAID = 0.01  # of the step in backward
SHOWN = 3  # lines named


@tip(
    title="Compute on whole tensors, not in loops",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def tensor_loops(step: StepFacts, nests: TensorLoopFacts) -> Advice | None:
    """Advises one operation on all elements where loops over them take a large share of the step."""
    share, behind = shares(nests, step)
    if share < NOTICEABLE or sum(line.samples for line in nests.lines) < SEEN:
        return None
    low, likely, high = gone(share, behind, LEFT, nests.waited)
    if likely < NOTICEABLE * (1 - LEFT.likely):
        return None
    top = nests.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share * step.mean_s * 1e3
    also = f", and about {behind.likely:.0%} their counterparts in backward"
    return Advice(
        because=(
            f"{share:.0%} of each step ({ms:.1f} ms) runs small tensor operations in a loop"
            + (also if behind.likely >= LEAST_SAID else ""),
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
            *waiting(nests.waited),
        ),
        change=removes(low, likely, high),
        bottleneck=None if nests.waited is None else Bottleneck.HOST,
        at=tuple(line.at for line in nests.lines[:SHOWN]),
        code=(
            "# all items in one tensor, and a mask in place of `if`\n"
            "torch.where(mask, x, -torch.inf).logsumexp(dim=1)"
        ),
    )
