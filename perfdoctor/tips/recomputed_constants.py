"""Each step computes something again that comes out the same every time.

## What it sees
In a few sampled steps, calls of torch's functions got the same inputs as in earlier steps (tensors that were
not changed, equal numbers) and returned the same. Their lines are named.

Typical cases: an adjacency matrix normalised in every forward pass, a mask, a table of positions or a filter
built anew, the features of a frozen model for the same data.

## By hand
    class Net(nn.Module):
        def __init__(self, adjacency):
            super().__init__()
            self.register_buffer("adjacency", normalise(adjacency))   # once

Outside a module: compute it before the loop; for what a dataset or a transform needs, in its
`__init__`. What depends on a size only can be kept in a dictionary by that size.

## When not
Where the result would take more memory than there is, and where its inputs will change later in the training.

Calls are compared where training runs on the CPU, without `torch.compile`. What numpy computes is not seen.
"""

from __future__ import annotations

from perfdoctor.facts.script.recomputed_constants import RecomputedConstantFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SHOWN = 3  # lines named
# What goes besides is not timed: memory of the results is given back, and what follows finds cold caches. At
# most this share of what follows goes too, where nearly all is recomputed; less, where less is.
BESIDES = 0.2
OF_MODULES = 'self.register_buffer("table", build())  # once, in __init__; outside a module: before the loop'
OF_ITEMS = "self.table = build()  # once, in the __init__ of the dataset or the transform"


@tip(
    title="Compute what never changes once, not in every step",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
    rivals=("repeated-forward", "tensor-loops", "copying-constructors", "batches-built-in-the-loop"),
)
def recomputed_constants(step: StepFacts, constants: RecomputedConstantFacts) -> Advice | None:
    """Advises computing it once where it takes a noticeable share of the sampled steps."""
    share = constants.share
    if share.likely < NOTICEABLE or not constants.lines:
        return None
    top = constants.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    calls = f" (`{'`, `'.join(top.names)}`)" if top.names else ""
    ms = share.likely * step.mean_s * 1e3
    with_all = share.high + BESIDES * share.high * (1.0 - share.high)
    repeated = f"{share.likely:.0%} of each step ({ms:.1f} ms) computes what earlier steps computed already"
    return Advice(
        because=(
            f"{repeated}: same inputs, same results, in {constants.samples} sampled steps",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{calls}{text}",
        ),
        change=removes(share.low, share.likely, with_all),
        at=tuple(line.at for line in constants.lines[:SHOWN]),
        bottleneck=top.bottleneck,
        code=OF_ITEMS if top.bottleneck is Bottleneck.DATA else OF_MODULES,
        takes=with_all,
    )
