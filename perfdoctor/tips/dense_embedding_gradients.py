"""A large embedding table gets a dense gradient, although each batch looks up few of its rows.

## What it sees
An `nn.Embedding` (or `nn.EmbeddingBag`) without `sparse=True`, of which a step looks up a quarter of the rows
at most. Backward still fills a gradient as large as the table, for each look-up one, and the optimizer goes
over all of it.

## By hand
    self.users = nn.Embedding(2_000_000, 64, sparse=True)

    tables = list(model.users.parameters())                  # an optimizer of their own
    sparse = torch.optim.SparseAdam(tables, lr=1e-3)         # or SGD, Adagrad
    dense = torch.optim.Adam(rest, lr=1e-3)

## When not
Adam moves every row in each step, by its momentum; SparseAdam only those that the batch looked up, and it has
no weight decay. That is another training: compare the validation loss. `clip_grad_norm_` and fused optimizers
do not take sparse gradients. A table that also serves as the output layer gets a dense gradient anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.script.embedding_tables import EmbeddingTable, EmbeddingTableFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
FEW = 0.25  # of the table's rows
# A row that is looked up is sorted, summed, gathered, updated and put back. Seconds of a CPU for one, and
# for each of its elements, by SparseAdam with 500 to 8,000 rows of 16 to 128 elements, on one core and on two
# (bench/sparse_updates.py).
ROW_S, ELEMENT_S = 0.3e-6, 6e-9
OF_SPARSE_ADAM = {"SGD": 0.2, "Adagrad": 0.6}  # a row's share of that, where they take sparse gradients
SCATTER = (1.6, 1.0, 0.6)  # of what was measured
ROW_COST = 3.0  # on a device: times what a row costs in a dense update
# An update goes over the table at least three times (SGD: parameter read and written, gradient read), and
# backward once, to fill the gradient with zeros: likely a third of it, at best as long as the update, where
# that memory was not touched before.
GRADIENT = (0.0, 1 / 3, 1.0)
# Each further look-up of a step fills a gradient of its own, and adds it to the others: seconds of a CPU for
# a byte of the table (bench/sparse_updates.py). From 32 MiB on, glibc's malloc asks the kernel for new pages
# each time. On a device: of the table's update. At most that much of backward goes with them.
FURTHER_S = (0.05e-9, 0.12e-9, 0.3e-9)
FURTHER_LARGE_S = (0.2e-9, 0.35e-9, 0.6e-9)
MAPPED_BYTES = 32 * 2**20
FURTHER = (0.3, 0.6, 1.3)
OF_BACKWARD = (0.3, 0.5, 0.8)
SURE = (0.6, 1.0, 1.0)  # of the update: small tensors beside the table cost more than their share of elements
MIB = 2**20
SPARSE = "nn.Embedding(..., sparse=True)  # {}"
CLIPPED = "\nclip_grad_norm_(others, ...)  # the other parameters: clipping takes no sparse gradients"
BYTES = 4  # of an element


@tip(
    title="Use sparse gradients for the large embedding table",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    rivals=("unfused-optimizer",),
)
def dense_embedding_gradients(
    run: RunFacts, step: StepFacts, embeddings: EmbeddingTableFacts
) -> Advice | None:
    """Advises sparse gradients where the update of rows that no batch looked up takes a noticeable share."""
    tables = [table for table in embeddings.tables if table.needed <= FEW]
    if not tables:
        return None
    update, backward = step.share(Phase.OPTIMIZER), step.share(Phase.BACKWARD)
    dense = update * min(1.0, sum(table.of_all for table in tables))
    sparse = sum(_sparse_share(run, step, table) for table in tables)
    further = _further_shares(run, step, tables)
    if dense - sparse + further[1] < NOTICEABLE:
        return None
    low, likely, high = (
        min(1.0, max(0.0, sure * dense - scatter * sparse) + min(backward, part * dense + filled))
        for sure, scatter, part, filled in zip(SURE, SCATTER, GRADIENT, further, strict=True)
    )
    first = tables[0]
    name = f"`{first.path}`" if first.path else "an embedding"
    size = f"{first.bytes / MIB:,.0f} MiB"
    part = f"{first.of_elements:.0%} of what {first.optimizer} updates"
    return Advice(
        because=(
            f"a step looks up at most {first.lookups:,.0f} of the {first.rows:,} rows of {name} ({size})",
            f"{update:.0%} of each step is the update, and {part} is this table",
            *_said_of_calls(first),
        ),
        change=removes(low, likely, high),
        at=tuple(table.at for table in tables if table.at is not None)[:3],
        same_result=False,
        code=SPARSE.format(_optimizer_for(first)) + (CLIPPED if embeddings.clipped else ""),
    )


def _sparse_share(run: RunFacts, step: StepFacts, table: EmbeddingTable) -> float:
    """The share of the step that an update of the rows takes that a batch looks up, beside its dense one."""
    if run.on_device:
        return step.share(Phase.OPTIMIZER) * table.of_all * ROW_COST * table.needed
    elements = table.bytes / max(1, table.rows) / BYTES
    row_s = OF_SPARSE_ADAM.get(table.optimizer, 1.0) * (ROW_S + ELEMENT_S * elements)
    return table.lookups * row_s / step.mean_s if step.mean_s > 0 else 0.0


def _further_shares(
    run: RunFacts, step: StepFacts, tables: Sequence[EmbeddingTable]
) -> tuple[float, float, float]:
    """Low, likely and high share of the step that gradients of further look-ups take to fill and to add."""
    found = []
    for of_update, most, small_s, large_s in zip(
        FURTHER, OF_BACKWARD, FURTHER_S, FURTHER_LARGE_S, strict=True
    ):
        if run.on_device:
            share = (
                of_update * step.share(Phase.OPTIMIZER) * sum(one.of_all * (one.calls - 1) for one in tables)
            )
        else:
            each_s = ((large_s if one.bytes >= MAPPED_BYTES else small_s) * one.bytes for one in tables)
            filled_s = sum(one_s * (one.calls - 1) for one_s, one in zip(each_s, tables, strict=True))
            share = filled_s / step.mean_s if step.mean_s > 0 else 0.0
        found.append(min(share, most * step.share(Phase.BACKWARD)))
    low, likely, high = found
    return low, likely, high


def _optimizer_for(table: EmbeddingTable) -> str:
    if table.optimizer in OF_SPARSE_ADAM:
        return f"{table.optimizer} takes sparse gradients: it may stay"
    return "and torch.optim.SparseAdam for this table"


def _said_of_calls(table: EmbeddingTable) -> list[str]:
    if table.calls <= 1:
        return []
    return [
        f"it is looked up {table.calls:.0f} times a step: each makes such a gradient, and they are added up"
    ]
