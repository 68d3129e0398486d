from __future__ import annotations

import os

from perfdoctor.runs.source_lines import SourceLines


def test_source_lines_are_counted_from_one(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("first\nsecond\n")
    source = SourceLines()
    assert source(str(file), 1) == "first"
    assert source(str(file), 2) == "second"
    assert source(str(file), 0) is None
    assert source(str(file), 99) is None


def test_a_source_that_is_no_readable_file_has_no_lines(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    source = SourceLines()
    for name in (str(fifo), str(tmp_path), str(tmp_path / "missing.py"), "<stdin>", "nul\0byte"):
        assert source(name, 1) is None


def test_a_source_in_an_odd_encoding_is_read_all_the_same(tmp_path):
    file = tmp_path / "train.py"
    file.write_bytes(b"x = 1  # gr\xf6\xdfe\n")
    assert SourceLines()(str(file), 1).startswith("x = 1  # gr")
