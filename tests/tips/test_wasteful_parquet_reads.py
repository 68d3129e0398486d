from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.batch import Stage
from perfdoctor.tips.wasteful_parquet_reads import wasteful_parquet_reads as tip
from tests.support import facts
from tests.support.facts import cpu, line, loader, step
from tests.support.load_facts import batch, cost

STARVED = step(data_wait=12, forward=3, backward=5)


def reads(share=0.8, text="day = pd.read_parquet(path)", function="Days.__iter__"):
    return batch(cost(Stage.READING, share, line(share, 38, text=text, function=function), kind="table"))


def gain(of_batch):
    return facts.gain(tip(STARVED, of_batch), facts.model(STARVED, loader(batch=12), cpu()))


def test_says_that_no_columns_are_chosen():
    advice = tip(STARVED, reads())
    assert advice is not None
    assert advice.because[1:] == (
        "80% of a batch's 12.0 ms reads tables, most at line 38",
        "it selects no columns: all of them are read",
    )
    assert [at.line for at in advice.at] == [38]


def test_expects_most_where_a_file_is_read_for_each_item():
    per_item = reads(function="Rows.__getitem__")
    chosen = reads(text="pq.read_table(path, columns=['x'])")
    assert "for each item" in str(tip(STARVED, per_item))
    assert 1 < gain(chosen).likely < gain(reads()).likely < gain(per_item).likely < 20 / 8


@pytest.mark.parametrize(
    ("of_step", "of_batch"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), reads(), id="wait-is-noise"),
        pytest.param(STARVED, reads(0.29), id="reading-is-a-part"),
        pytest.param(STARVED, batch(cost(Stage.READING, 0.9, kind="file")), id="no-tables"),
    ],
)
def test_is_silent(of_step, of_batch):
    assert tip(of_step, of_batch) is None


@pytest.mark.parametrize(
    ("text", "whole", "reads_all"),
    [
        ("table = pq.read_table(", None, False),
        ("table = pq.read_table(", "table = pq.read_table(path)", True),
        ("table = pq.read_table(", "table = pq.read_table(path, columns=COLS)", False),
        ("rows = file.read_row_group(i, names)", None, False),
        ("rows = file.read_row_group(i)", None, True),
        ("table = pd.read_parquet(path, **options)", None, False),
        ("for rows in reader:", None, False),
    ],
)
def test_columns_are_looked_for_in_all_of_the_call_that_reads(text, whole, reads_all):
    read = line(0.8, 38, text=text, function="Days.__iter__")
    of_batch = batch(cost(Stage.READING, 0.8, replace(read, at=replace(read.at, whole=whole)), kind="table"))
    assert ("it selects no columns: all of them are read" in tip(STARVED, of_batch).because) == reads_all
