from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from perfdoctor.render.exports import tables
from tests.support import reports
from tests.support.recorded import NOTHING, RECORDED


def read(text):
    return list(csv.DictReader(io.StringIO(text), strict=True))


def test_a_step_is_a_row_with_each_phase_its_samples_and_its_loss():
    first, second = read(tables.as_csv(tables.steps(RECORDED)))
    told = {
        name: float(first[name]) for name in ("begin_s", "seconds", "data_wait_s", "forward_s", "other_s")
    }
    assert told == {"begin_s": 1.0, "seconds": 0.5, "data_wait_s": 0.2, "forward_s": 0.0, "other_s": 0.3}
    assert (first["samples"], first["loss"]) == ("32.0", "2.5")
    assert (second["steps"], second["loss"]) == ("300", "")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", '=A1,"x"'])
def test_no_text_is_computed_by_a_spreadsheet(text):
    host = (replace(RECORDED.host[0], role=text),)
    (row,) = read(tables.as_csv(tables.samples(replace(RECORDED, host=host))))
    assert row["role"] == f"'{text}"
    assert (row["pid"], row["threads"], row["rss_bytes"]) == ("7", "", "1000")


def test_an_empty_run_is_a_table_without_rows():
    for table in (
        tables.steps(NOTHING),
        tables.samples(NOTHING),
        tables.stacks(NOTHING),
        tables.findings(()),
    ):
        assert read(tables.as_csv(table)) == []
    assert tables.as_csv(tables.steps(NOTHING)).startswith("step,")


def test_a_stack_is_a_row_with_its_frames_in_one_text():
    last = read(tables.as_csv(tables.stacks(RECORDED)))[-1]
    assert (last["thread"], last["phase"], last["samples"]) == ("worker 9", "loader", "4")
    assert last["frames"] == "load (/home/ada/train.py:3)"


def test_a_finding_is_a_row_with_its_gain_and_its_first_line():
    found = reports.STARVED.findings[0]
    (row,) = read(tables.as_csv(tables.findings([found])))
    assert (row["rank"], row["id"], row["bottleneck"]) == ("1", found.id, "data")
    assert float(row["gain_likely"]) == pytest.approx(found.gain.likely)
    assert (row["file"], row["line"]) == (found.advice.at[0].file, str(found.advice.at[0].line))
    nowhere = replace(found, advice=replace(found.advice, at=(), change=None))
    (row,) = read(tables.as_csv(tables.findings([nowhere])))
    assert (row["file"], row["line"], row["gain_low"]) == ("", "", "")
