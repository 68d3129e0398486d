"""DistributedDataParallel searches for parameters without gradient in every pass, and there are none.

## What it sees
`find_unused_parameters=True`, no unused parameter in any pass that torch counted, the time that the search
takes after each forward pass, and the exposed gradient sync: each backward adds one all-reduce, for the
result of the search.

## By hand
    DistributedDataParallel(model)                        # or static_graph=True

## When not
Where some steps leave parts of the model out: without the search such a step fails with an error, or hangs.
"""

from __future__ import annotations

from perfdoctor.facts.script.parallel import ParallelFacts, one_more, searching
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.02  # share of the step
# Of the search, and of what it costs in backward, which is a guess from its length.
GONE = (0.4, 1.0, 1.5)
# Of the exposed gradient sync, one collective's part: the extra one may overlap the last bucket.
EXTRA = (0.0, 1.0, 1.5)


@tip(
    title="Turn off the search for unused parameters",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def unused_parameter_search(step: StepFacts, parallel: ParallelFacts) -> Advice | None:
    """Advises plain DistributedDataParallel where the search never found anything."""
    share, extra = searching(step, parallel), one_more(step, parallel)
    if not parallel.find_unused or parallel.unused != 0 or share + extra < NOTICEABLE:
        return None
    low, likely, high = (
        min(1.0, share * gone + extra * more) for gone, more in zip(GONE, EXTRA, strict=True)
    )
    search = f"the search takes {parallel.search_s * 1e3:.2f} ms per pass"
    because = [
        "find_unused_parameters=True, but every parameter had a gradient in all counted passes",
        f"{search}, {share:.1%} of the step with its part of backward",
    ]
    if extra > 0:
        because.append(f"the extra small all-reduce after each backward takes about {extra:.1%} of the step")
    return Advice(
        because=tuple(because),
        change=removes(low, likely, high),
        at=(parallel.wrapped_at,) if parallel.wrapped_at else (),
        tweak="--ddp-static-graph",
        code="DistributedDataParallel(model, static_graph=True)",
    )
