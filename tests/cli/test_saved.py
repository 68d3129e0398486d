from __future__ import annotations

import os
from collections import namedtuple

import pytest

from perfdoctor.cli import saved
from perfdoctor.errors import NoSuchRun
from perfdoctor.recorded import RankRecords


def test_source_lines_are_counted_from_one(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("first\nsecond\n")
    source = saved.SourceLines()
    assert source(str(file), 1) == "first"
    assert source(str(file), 2) == "second"
    assert source(str(file), 0) is None
    assert source(str(file), 99) is None


def test_a_source_that_is_no_readable_file_has_no_lines(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    source = saved.SourceLines()
    for name in (str(fifo), str(tmp_path), str(tmp_path / "missing.py"), "<stdin>", "nul\0byte"):
        assert source(name, 1) is None


def test_a_source_in_an_odd_encoding_is_read_all_the_same(tmp_path):
    file = tmp_path / "train.py"
    file.write_bytes(b"x = 1  # gr\xf6\xdfe\n")
    assert saved.SourceLines()(str(file), 1).startswith("x = 1  # gr")


def test_the_hint_for_a_run_in_another_folder_names_that_folder(tmp_path):
    with pytest.raises(NoSuchRun) as caught:
        saved.find("no-such-run", str(tmp_path))
    assert caught.value.hint.endswith(f"--out {tmp_path}")


def test_a_window_that_cannot_be_read_is_a_note_and_the_rest_is_used(tmp_path):
    window = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
    (tmp_path / "trace.rank0.0.json").write_text("cut")
    (tmp_path / "trace.rank0.1.json").write_text(window)
    (tmp_path / "trace.rank0.1.json.gz.part").write_text("half")
    kinds = [
        {"event": "window", "index": 0, "kind": "plain"},
        {"event": "window", "index": 1, "kind": "shapes"},
    ]
    records = namedtuple("Records", "ranks")({0: RankRecords(0, None, None, tuple(kinds))})
    windows, notes = saved._windows(tmp_path, records)
    assert list(windows) == ["shapes"]
    assert len(notes) == 1
    assert "could not be read" in notes[0]
