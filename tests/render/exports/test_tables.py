from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from perfdoctor.render.exports import tables
from tests.support.recorded import NOTHING, RECORDED


def read(text):
    return list(csv.DictReader(io.StringIO(text), strict=True))


def test_a_step_is_a_row_with_each_phase_its_samples_and_its_loss():
    first, second = read(tables.steps(RECORDED))
    told = {
        name: float(first[name]) for name in ("begin_s", "seconds", "data_wait_s", "forward_s", "other_s")
    }
    assert told == {"begin_s": 1.0, "seconds": 0.5, "data_wait_s": 0.2, "forward_s": 0.0, "other_s": 0.3}
    assert (first["samples"], first["loss"]) == ("32.0", "2.5")
    assert (second["steps"], second["loss"]) == ("300", "")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", '=A1,"x"'])
def test_no_text_is_computed_by_a_spreadsheet(text):
    (row,) = read(tables.samples(replace(RECORDED, host=(replace(RECORDED.host[0], role=text),))))
    assert row["role"] == f"'{text}"
    assert (row["pid"], row["threads"], row["rss_bytes"]) == ("7", "", "1000")


def test_an_empty_run_is_a_table_without_rows():
    assert read(tables.steps(NOTHING)) == read(tables.samples(NOTHING)) == []
    assert tables.steps(NOTHING).startswith("step,")
