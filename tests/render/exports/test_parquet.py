from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.render.exports import tables
from perfdoctor.render.exports.parquet import parquet
from tests.support.recorded import NOTHING, RECORDED


def read(content):
    reader = pytest.importorskip("pyarrow.parquet")
    return reader.read_table(io.BytesIO(content))


def test_columns_keep_their_types_and_what_is_not_known_is_null():
    steps = read(parquet(tables.steps(RECORDED)))
    assert steps.column("loss").to_pylist() == [2.5, None]
    assert str(steps.schema.field("step").type) == "int64"
    host = read(parquet(tables.samples(RECORDED)))
    assert host.column("role").to_pylist() == ["=main"]
    assert host.column("threads").to_pylist() == [None]


def test_an_empty_run_is_a_table_without_rows_and_with_all_its_columns():
    empty = read(parquet(tables.samples(NOTHING)))
    assert (empty.num_rows, empty.schema.names) == (0, list(tables.samples(NOTHING).columns))


def test_numbers_and_texts_that_no_column_can_hold_do_not_break_it():
    odd = replace(RECORDED.host[0], pid=2**80, role="\ud800")
    table = read(parquet(tables.samples(replace(RECORDED, host=(odd,)))))
    assert (table.column("pid").to_pylist(), table.column("role").to_pylist()) == ([None], ["\\ud800"])


def test_without_pyarrow_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PerfdoctorError, match="pyarrow, which is not installed") as raised:
        parquet(tables.steps(RECORDED))
    assert "pip install pyarrow" in raised.value.hint
