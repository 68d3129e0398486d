"""DistributedDataParallel looks for parameters without gradient in every pass, and there are none.

## What it sees
`find_unused_parameters=True`, no unused parameter in any pass that torch counted, the time that the search
takes after each forward pass, and how long the exchange is waited for: each backward makes one more
all-reduce, of what was found.

## By hand
    DistributedDataParallel(model)                        # or static_graph=True

## When not
Where some steps leave parts of the model out: without the search such a step stops with an error, or waits
for ever.
"""

from __future__ import annotations

from perfdoctor.analysis.parallel import ParallelFacts, one_more, searching
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, StepFacts

NOTICEABLE = 0.02  # share of the step
# Of the search, and of what it costs in backward, which is a guess from its length.
GONE = (0.4, 1.0, 1.5)
# Of the exchange that is waited for, each collective's part: the one more may be under way beside the last
# bucket.
EXTRA = (0.0, 1.0, 1.5)


@tip(
    title="Do not search for unused parameters",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def unused_parameter_search(step: StepFacts, parallel: ParallelFacts) -> Advice | None:
    """A plain DDP, where the search never found anything."""
    share, extra = searching(step, parallel), one_more(step, parallel)
    if not parallel.find_unused or parallel.unused != 0 or share + extra < NOTICEABLE:
        return None
    low, likely, high = (
        min(1.0, share * gone + extra * more) for gone, more in zip(GONE, EXTRA, strict=True)
    )
    search = f"the search takes {parallel.search_s * 1e3:.2f} ms a pass"
    because = [
        "find_unused_parameters=True, and every parameter had a gradient in all passes that were counted",
        f"{search}, with its part of backward {share:.1%} of the step",
    ]
    if extra > 0:
        because.append(f"one more small all-reduce after each backward is about {extra:.1%} of the step")
    return Advice(
        because=tuple(because),
        change=removes(low, likely, high),
        at=(parallel.wrapped_at,) if parallel.wrapped_at else (),
        tweak="--ddp-static-graph",
        code="DistributedDataParallel(model, static_graph=True)",
    )
