"""Each step multiplies by a matrix that holds next to nothing but zeros.

## What it sees
In a few sampled steps, long products (`matmul`, `@`, `linear`, `einsum`, ...) had a matrix without gradients
of which at most one element in fifty was not zero; in one-hot ones, whose rows or columns hold a single one
each, one in twenty. Their lines are named. Making a one-hot matrix counts as well.

Typical cases: `one_hot(index)` times a table, as in many vector quantisers and models of characters; sums
over the neighbours of a graph by its dense adjacency matrix; word counts, a row as long as the vocabulary for
each text.

## By hand
    rows = table[index]                                          # one_hot(index) @ table
    sums = torch.zeros(n, width).index_add_(0, index, values)    # one_hot(index, n).T @ values

    adjacency = adjacency.to_sparse_csr()                        # once, before the loop
    sums = torch.sparse.mm(adjacency, values)                    # adjacency @ values

Word counts: `nn.EmbeddingBag` over the words of each text.

## When not
Where the matrix is small, or fuller in later steps: where much more than one element in twenty is not zero,
a dense product is faster.

Values are looked at where training runs on the CPU, without `torch.compile`.
"""

from __future__ import annotations

from perfdoctor.facts.script.zero_products import ZeroProductFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.08  # share of the step
SHOWN = 3  # lines named
# What is left of a dense product, by the share of its matrix that is not zero: in an experiment (2 cores, 512
# to 4096 rows, 16 to 128 columns of values) sparse products (CSR) and indexing took 0.5 % to 17 % of the time
# of dense ones, most often 5 to 10 times that share.
LEFT_LIKELY, LEFT_MOST, LEFT_LEAST = 5.0, 0.5, 0.02
INDEXED = """table[index]  # not: one_hot(index) @ table
out.index_add_(0, index, values)  # not: one_hot(index).T @ values"""
SPARSE = """matrix = matrix.to_sparse_csr()  # where it stays the same: once, before the loop
torch.sparse.mm(matrix, values)"""


@tip(
    title="Do not multiply by zeros",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
    rivals=("tensor-loops", "uncompiled-model"),
)
def products_with_zeros(step: StepFacts, products: ZeroProductFacts) -> Advice | None:
    """Advises an index or a sparse matrix where products with zeros take a noticeable share of the step."""
    share = products.share
    if share.likely < NOTICEABLE or not products.lines:
        return None
    top = products.lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    ms = share.likely * step.mean_s * 1e3
    what = "one-hot matrices" if top.one_hot else "matrices of zeros"
    spent = f"{share.likely:.0%} of each step ({ms:.1f} ms), backward included, multiplies by {what}"
    left = min(LEFT_MOST, LEFT_LIKELY * top.nonzero_share)
    return Advice(
        because=(
            f"{spent}, in {products.samples} sampled steps",
            f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
            f"one in {1 / top.nonzero_share:,.0f} of its {top.rows:,} × {top.columns:,} elements is not zero",
        ),
        change=removes(
            share.low * (1 - LEFT_MOST),
            share.likely * (1 - max(LEFT_LEAST, left)),
            share.high * (1 - LEFT_LEAST),
        ),
        at=tuple(line.at for line in products.lines[:SHOWN]),
        code=INDEXED if top.one_hot else SPARSE,
    )
