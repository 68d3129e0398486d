"""Batches arrive late because tables are read from Parquet in a wasteful way.

## What it sees
The step waits for batches, and reading Parquet (pyarrow, pandas, petastorm) is a large part of a batch's
cost. The line shows the waste: no selection of columns, or a file or row group read for each item.

## By hand
    table = pq.read_table(path, columns=["x", "y"])            # only the columns in use
    for batch in pq.ParquetFile(path).iter_batches(4096, columns=["x", "y"]):   # thousands of rows at a time

In a map-style dataset, read a row group once and keep it; shuffle row groups, then rows inside a buffer.

## When not
Where all columns are used and every row group is read once, the rest is decompression: lighter compression
(`compression="lz4"`) or a decoded copy (`np.memmap`) helps.
"""

from __future__ import annotations

import ast
import re

from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import parsed_line
from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.30  # of a batch's cost
PER_ITEM = ("__getitem__", "__getitems__")
# What is left of reading. How many columns are used is not known: with all of them nothing is gained, with
# half of them half. A read per item becomes one per row group of thousands of rows.
KEPT_COLUMNS, KEPT_PER_ITEM, KEPT_OTHER = (0.9, 0.5, 0.1), (0.5, 0.1, 0.02), (0.95, 0.7, 0.4)

# Calls that can be told which columns to read.
READING = re.compile(r"(?:^|_)read|iter_batches|to_table|to_batches|scanner")


@tip(
    title="Read only the columns and row groups that are used",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def wasteful_parquet_reads(step: StepFacts, batch: BatchFacts) -> Advice | None:
    """Names the line that reads Parquet, where the step waits for it."""
    share = batch.share(Stage.READING, "table")
    lines = batch.lines(Stage.READING, "table")
    if step.data_stall < NOTICEABLE or share < LARGE or not lines:
        return None
    top = lines[0].at
    all_columns = _reads_all(top.statement)
    per_item = top.function is not None and top.function.rpartition(".")[2] in PER_ITEM
    kept = KEPT_PER_ITEM if per_item else KEPT_COLUMNS if all_columns else KEPT_OTHER
    low, likely, high = sorted(share * (1 - left) for left in kept)
    waste = ["it runs for each item: a row group is read again for every row"] if per_item else []
    waste += ["it selects no columns: all of them are read"] if all_columns else []
    return Advice(
        because=(
            waits(step),
            f"{share:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms reads tables, most at line {top.line}",
            *waste,
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(line.at for line in lines[:3]),
        code="pq.ParquetFile(path).iter_batches(4096, columns=[...])  # thousands of rows at a time",
    )


def _reads_all(text: str | None) -> bool:
    """Whether a statement shows the calls that read, and none of them is told of columns."""
    tree = parsed_line(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    reading = [call for call in calls if READING.search(called_name(call))]
    return bool(reading) and not any(map(_may_select, reading))


def _may_select(call: ast.Call) -> bool:
    """Whether what is given beside the file may name columns."""
    named = any(word.arg is None or re.search("columns|fields", word.arg) for word in call.keywords)
    return named or len(call.args) > 1
