"""DistributedDataParallel looks for parameters without gradient in every pass, and there are none.

## What it sees
`find_unused_parameters=True`, no unused parameter in any pass that torch counted, and the time that the
search takes after each forward pass.

## By hand
    DistributedDataParallel(model)                        # or static_graph=True

## When not
Where some steps leave parts of the model out: without the search such a step stops with an error, or waits
for ever.
"""

from __future__ import annotations

from perfdoctor.analysis.parallel import ParallelFacts, searching
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, StepFacts

NOTICEABLE = 0.01  # share of the step
# Times the search: most of what was timed is the search; besides, each backward exchanges what was found.
GONE = (0.7, 0.9, 2.0)


@tip(
    title="Do not search for unused parameters",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "distributed"),
)
def unused_parameter_search(step: StepFacts, parallel: ParallelFacts) -> Advice | None:
    """A plain DDP, where the search never found anything."""
    share = searching(step, parallel)
    if not parallel.find_unused or parallel.unused != 0 or share < NOTICEABLE:
        return None
    low, likely, high = (min(1.0, share * gone) for gone in GONE)
    return Advice(
        because=(
            "find_unused_parameters=True, and every parameter had a gradient in all passes that were counted",
            f"the search takes {parallel.search_s * 1e3:.2f} ms a pass, {share:.1%} of the step",
        ),
        change=removes(low, likely, high),
        at=(parallel.wrapped_at,) if parallel.wrapped_at else (),
        tweak="--ddp-static-graph",
        code="DistributedDataParallel(model, static_graph=True)",
    )
