"""Items of a batch go through modules one by one, in a Python loop.

## What it sees
In a sampled step one module is called 16 times or more, and the source shows a loop that leads to those
calls: it goes through data that the step was given, hands nothing from turn to turn, and calls the same
modules in each turn. Stack samples tell what it takes. What the products with the modules' weights take
stays, at the speed at which a core makes them; on a device no more goes than it waits for the host.

## By hand
    tokens = pad_sequence(sentences, batch_first=True)             # one padded batch
    logits = model(tokens, lengths)

    x = torch.cat([graph.x for graph in graphs])                   # or one behind the other
    owner = torch.repeat_interleave(torch.tensor(sizes))           # with the item that each row is of

Each call of a module costs tens of microseconds, and again in backward, however small its input is.

## When not
Where items are so large that one fills the machine, or where modules look at the batch as a whole, as batch
normalisation does: what they compute changes.
"""

from __future__ import annotations

from perfdoctor.facts.host.item_loops import ItemLoopFacts
from perfdoctor.model.change import Effort, Estimate, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips._python_loops import LEFT, gone, shares, waiting
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.08  # share of the step
SEEN = 5  # samples in those loops: fewer may be chance
LEAST_SAID = 0.01  # of the step in backward
FULL = 0.5  # of such loops, what the products take: one item fills the machine, or nearly so
SHOWN = 3  # loops and modules named


@tip(
    title="Feed whole batches to the model, not items one by one",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=("tensor-loops", "uncompiled-model"),
)
def items_one_by_one(step: StepFacts, items: ItemLoopFacts) -> Advice | None:
    """Advises one batch where loops that feed items one by one take a large share of the step."""
    share, behind = shares(items, step)
    if share < NOTICEABLE or sum(loop.samples for loop in items.loops) < SEEN:
        return None
    top = items.loops[0]
    kept = items.kept
    least = 1 / top.turns
    left = Estimate(
        max(LEFT.low, least, kept.low), max(LEFT.likely, least, kept.likely), max(LEFT.high, least, kept.high)
    )
    low, likely, high = gone(share, behind, left, items.waited)
    if likely < NOTICEABLE * (1 - LEFT.likely) or kept.likely > FULL:
        return None
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share * step.mean_s * 1e3
    names = ", ".join(top.names[:SHOWN]) + (", ..." if len(top.names) > SHOWN else "")
    also = f", and about {behind.likely:.0%} their counterparts in backward"
    return Advice(
        because=(
            f"{share:.0%} of each step ({ms:.1f} ms) feeds items to modules one by one ({names})"
            + (also if behind.likely >= LEAST_SAID else ""),
            f"line {top.at.line} makes about {top.turns} turns a step, none of which needs another{text}",
            *waiting(items.waited),
        ),
        change=removes(low, likely, high),
        bottleneck=None if items.waited is None else Bottleneck.HOST,
        at=tuple(loop.at for loop in items.loops[:SHOWN]),
        code=(
            "# one padded batch; or torch.cat, with an index that tells the item of each row\n"
            "batch = torch.nn.utils.rnn.pad_sequence(items, batch_first=True)"
        ),
    )
