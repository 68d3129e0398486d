"""Attention is written out as matmul, softmax and matmul, which sends its scores through memory each time.

## What it sees
A softmax stands between two batched matrix products, and the work on the scores between them (scaling,
masking, softmax, dropout) takes a noticeable share of the time. Where scaled_dot_product_attention computes
so itself, as it does on a CPU with dropout or with a bias that is trained, there is nothing to replace.

`nn.MultiheadAttention` writes it out as well, unless it is called with `need_weights=False`: for the weights
that it returns, averaged over the heads. Its calls count where nothing reads them: `out, _ = attention(...)`,
`attention(...)[0]`.

## By hand
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=~hidden, dropout_p=p)
    out, _ = attention(query, key, value, need_weights=False)  # of nn.MultiheadAttention

True in a boolean `attn_mask` means "may attend", while `masked_fill` hides where its mask is True: pass
`~hidden`. A mask of numbers is added to the scores. A causal mask needs none: `is_causal=True`.

## When not
Where you need the scores or the weights themselves. With a few dozen keys the scores fit into a cache, and
fusing saves little.
"""

from __future__ import annotations

from perfdoctor.facts.device.device import AttentionFacts, at_line
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.trace.results import AttentionUse

NOTICEABLE = 0.05  # share of the time between the products
KEPT = 0.5  # of that time, if the softmax itself is what takes it
# FlashAttention computes attention two to four times as fast as the written-out form (Dao et al. 2022, 4.1
# and figure 3): at best, half of the products' own time goes with what stood between them.
# nn.MultiheadAttention on one core of a CPU (64 wide, 4 heads, its projections left out): need_weights=False
# took 0.12 of forward and backward away at 32 keys, 0.34 at 64 and 128, 0.58 to 0.64 at 256 to 2,048.
PRODUCTS_GONE = 0.5
SHOWN = 3  # sizes named
WRITTEN = (
    "out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=~hidden)\n"
    "# hidden: the mask of masked_fill; for a causal one, is_causal=True instead of attn_mask"
)
OF_MODULE = "out, _ = attention(query, key, value, need_weights=False)"


@tip(
    title="Use scaled_dot_product_attention",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def materialised_attention(attention: AttentionFacts) -> Advice | None:
    """Advises fused attention where work on the scores takes a noticeable share."""
    between, products = (
        attention.per_us * sum(us)
        for us in (
            [use.between_us for use in attention.uses],
            [use.products_us for use in attention.uses],
        )
    )
    share = min(1.0, between)
    if share < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"{share:.1%} of the time goes into the scores between the two matrix products of attention",
            f"the matrix products themselves take {min(1.0, products):.1%}",
            *(_size(use) for use in attention.uses[:SHOWN] if use.queries),
            *(f"{_what(attention)} is{at_line(at)}" for at in attention.at[:1] if at.text),
        ),
        change=removes(KEPT * share, share, min(1.0, share + PRODUCTS_GONE * products)),
        at=attention.at[:SHOWN],
        same_result=False,
        code=OF_MODULE if attention.unused_weights else WRITTEN,
    )


def _what(attention: AttentionFacts) -> str:
    return "a call that returns weights which nothing uses" if attention.unused_weights else "the softmax"


def _size(use: AttentionUse) -> str:
    way = "backward" if use.backward else "forward"
    return f"{use.count:,} times {way}: {use.heads:,} heads, {use.queries:,} queries, {use.keys:,} keys"
