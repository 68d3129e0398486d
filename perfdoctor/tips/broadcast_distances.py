"""Distances or similarities of all pairs are taken element by element, and not by a product of matrices.

## What it sees
In a few sampled steps two tensors were broadcast against each other, so that every row of one met every row
of the other, and what came of it was summed up over the numbers of each pair: `F.cosine_similarity`, a
difference squared, a product. Their lines are named. Each writes and reads a tensor that is as large as all
pairs times all numbers, several times over, and backward does so again.

Typical cases: contrastive losses against a queue, prototypes and centres of clusters, code books of vector
quantisers, kernels, attention that was written out.

## By hand
    F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).T    # F.cosine_similarity(x[:, None], y[None], dim=-1)
    x @ y.T                                              # (x[:, None] * y[None]).sum(-1)
    torch.cdist(x, y)                                    # (x[:, None] - y[None]).norm(dim=-1)
    torch.cdist(x, y, p=1)                               # (x[:, None] - y[None]).abs().sum(-1)
    squared = x.square().sum(-1)[:, None] - 2 * x @ y.T + y.square().sum(-1)

## When not
Where a pair has few numbers, such as two coordinates, or points lie so close together that the difference of
two large squares is too coarse: `torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")` keeps to
differences, and makes nothing that large either.
"""

from __future__ import annotations

from perfdoctor.facts.script.broadcast_distances import BroadcastDistanceFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.06  # share of the step
SHOWN = 3  # lines named
# What is left of the time, with backward, by bench/broadcast_distances.py on 1 and 2 cores: products of
# matrices took 1 % to 35 %, all but two less than a quarter; `cdist` of absolute differences 11 % to 63 %.
LEFT, LEFT_OF_ABSOLUTE = (0.01, 0.08, 0.25), (0.1, 0.45, 0.6)
CODE = {
    "cosine": "F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).T  # not: F.cosine_similarity(...)",
    "product": "x @ y.T  # not: (x[:, None] * y[None]).sum(-1)",
    "absolute": "torch.cdist(x, y, p=1)  # not: (x[:, None] - y[None]).abs().sum(-1)",
    "distance": "torch.cdist(x, y)  # not: (x[:, None] - y[None]).norm(dim=-1)\n"
    "x.square().sum(-1)[:, None] - 2 * x @ y.T + y.square().sum(-1)  # their squares",
}
WORDS = {"cosine": "similarities", "product": "products", "distance": "distances"}


@tip(
    title="Take distances of all pairs by a product of matrices",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    rivals=("tensor-loops", "uncompiled-model"),
)
def broadcast_distances(step: StepFacts, distances: BroadcastDistanceFacts) -> Advice | None:
    """Advises a product of matrices where broadcasting takes a noticeable share of the step."""
    share = distances.share
    if share.likely < NOTICEABLE or not distances.lines:
        return None
    top = distances.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share.likely * step.mean_s * 1e3
    words = WORDS.get(top.kind, WORDS["distance"])
    spent = f"{share.likely:.0%} of each step ({ms:.1f} ms), backward included, takes {words} of all pairs"
    least, likely, most = LEFT_OF_ABSOLUTE if top.kind == "absolute" else LEFT
    return Advice(
        because=(
            f"{spent}, in {distances.samples} sampled steps",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
            f"what it makes there has {top.pairs:,} pairs times {top.width:,} numbers",
        ),
        change=removes(share.low * (1 - most), share.likely * (1 - likely), share.high * (1 - least)),
        at=tuple(line.at for line in distances.lines[:SHOWN]),
        code=CODE.get(top.kind, CODE["distance"]),
    )
