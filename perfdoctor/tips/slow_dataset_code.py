"""Batches are late because a few lines of the dataset's own Python take most of their cost.

## What it sees
The step waits for batches, preparing them is CPU work, and one function of the user's dataset, transform or
collate code takes most of the stack samples.

## By hand
Vectorise the loop (NumPy or torch on the whole array), do once in `__init__` what does not change per item,
compile it (numba), or keep results that are asked for again (`functools.lru_cache`).

## When not
Where the line waits for a disk or a network, faster code does not help. Where decoding an image is most of
the cost, a faster decoder helps more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from perfdoctor.analysis.stepmodel import StepModel
from perfdoctor.catalogue import tip
from perfdoctor.change import Change, Effort, Estimate
from perfdoctor.model import Advice, Bottleneck, LineCost, LoaderFacts, Phase, StackFacts, StepFacts

NOTICEABLE = 0.10  # share of step time that waits
MOST_OF_IT = 0.40  # of batch time in one function: more than the others together, nearly
SEEN = 10  # samples of batches being prepared: fewer may all be of one slow batch
ON_CPU = 0.5  # of the batch's cost; below it the line waits for something
KEPT = (0.5, 0.2, 0.05)  # of the function's cost after a rewrite: by hand, vectorised, compiled
CURES = {
    ".iloc": "take the columns out of the DataFrame once (`.to_numpy()`) and index arrays",
    ".loc": "take the columns out of the DataFrame once (`.to_numpy()`) and index arrays",
    "re.": "compile the pattern once, or keep the parsed result",
    "open(": "open the file once per worker and keep it open",
    "sleep": "this line sleeps: nothing is gained by waiting",
}


@tip(
    title="Rewrite the dataset code that takes most of a batch",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
)
def slow_dataset_code(
    step: StepFacts, loader: LoaderFacts, stacks: StackFacts, model: StepModel
) -> Advice | None:
    """The hottest function of the dataset, where the step waits for it."""
    if step.share(Phase.DATA_WAIT) < NOTICEABLE or stacks.loader_samples < SEEN:
        return None
    if loader.batch_cpu_s < ON_CPU * loader.batch_s:
        return None
    lines = _hottest(stacks.loader_lines)
    share = min(1.0, sum(line.share for line in lines))
    if share < MOST_OF_IT:
        return None
    low, likely, high = sorted(share * (1 - kept) for kept in KEPT)
    top = lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    return Advice(
        because=(
            f"{step.share(Phase.DATA_WAIT):.0%} of each step waits for the next batch",
            f"{share:.0%} of a batch's {loader.batch_s * 1e3:.1f} ms is spent in `{top.at.function}`",
            f"line {top.at.line} takes {top.share:.0%} of it{text}",
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(line.at for line in lines[:3]),
        code=next((cure for sign, cure in CURES.items() if sign in (top.at.text or "")), None),
    )


def _hottest(lines: Sequence[LineCost]) -> list[LineCost]:
    """The lines of the function that takes most, costliest first."""
    functions: dict[tuple[str, str | None], list[LineCost]] = defaultdict(list)
    for line in lines:
        functions[line.at.file, line.at.function].append(line)
    return max(functions.values(), key=lambda own: sum(line.share for line in own), default=[])
