"""Look-ups in an embedding table renormalise its rows one after the other, by `max_norm`.

## What it sees
`nn.Embedding`, `nn.EmbeddingBag` or `F.embedding` with `max_norm`, on a CPU. Before it looks up anything,
each forward takes every row that the batch needs, computes its norm and scales it, one row after the other
and on one core. In a few sampled steps these look-ups are timed.

## By hand
Leave out `max_norm`, and renormalise all these rows at once:

    self.users = nn.Embedding(50_000, 64)  # without max_norm

    with torch.no_grad():  # before the look-up
        rows = ids.unique()
        found = self.users.weight[rows]
        self.users.weight[rows] = found * (max_norm / found.norm(dim=1, keepdim=True)).clamp(max=1)

A table of which a batch needs most rows is renormalised faster as a whole: `weight.mul_(...)`. For another
`norm_type`, give `norm` that `p`.

## When not
Where few rows are looked up, or each is very wide: several hundred elements of a row take about as long by
either way. Where the norm is limited only against growth, weight decay may do, which is another training.

Look-ups are timed where training runs on the CPU, without `torch.compile`. A device renormalises all rows in
one kernel.
"""

from __future__ import annotations

from perfdoctor.facts.script.renormalised_embeddings import RenormalisedEmbeddingFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SHOWN = 3  # lines named
# What is left is to find the different rows, gather, measure, scale and put them back, and the look-up. In
# seconds of a CPU: for one call, for each row that it looks up, and for each element. Half of it to 1.6 times
# it was measured in most of 24 cases of 1,000 to 30,000 rows with 16 to 300 elements, on 1 and 2 cores.
CALL_S, ROW_S, ELEMENT_S = 35e-6, 0.1e-6, 2e-9
LEFT = (1.6, 1.0, 0.5)
VECTORISED = """with torch.no_grad():  # before the look-up, and no max_norm
    rows = ids.unique()
    found = table.weight[rows]
    table.weight[rows] = found * (max_norm / found.norm(dim=1, keepdim=True)).clamp(max=1)"""


@tip(
    title="Renormalise the rows of an embedding all at once",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
)
def renormalised_embeddings(step: StepFacts, renormalised: RenormalisedEmbeddingFacts) -> Advice | None:
    """Advises to scale all rows at once where look-ups with `max_norm` take a noticeable share."""
    share, tables = renormalised.share, renormalised.tables
    if not tables or step.mean_s <= 0:
        return None
    left_s = sum(t.calls * CALL_S + t.lookups * (ROW_S + ELEMENT_S * t.width) for t in tables)
    low, likely, high = (
        max(0.0, part - left * left_s / step.mean_s)
        for part, left in zip((share.low, share.likely, share.high), LEFT, strict=True)
    )
    if likely < NOTICEABLE:
        return None
    top = tables[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share.likely * step.mean_s * 1e3
    spent = f"{share.likely:.0%} of each step ({ms:.1f} ms) is look-ups with `max_norm`"
    lookups = sum(table.lookups for table in tables)
    lines = [line for table in tables for line in (table.at, table.called) if line is not None]
    return Advice(
        because=(
            f"{spent}, in {renormalised.samples} sampled steps",
            f"rows are renormalised one after the other; a step looks up {lookups:,.0f}",
            f"the tables of line {top.at.line} take the most, {top.share:.0%} of the step{text}",
        ),
        change=removes(low, likely, high),
        at=tuple(dict.fromkeys(lines))[:SHOWN],
        code=VECTORISED,
    )
