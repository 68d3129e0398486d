from __future__ import annotations

import json
import os

import numpy as np
import pytest

from perfdoctor.model.measured import Location
from perfdoctor.runs import source_lines
from perfdoctor.runs.directory import SOURCES
from perfdoctor.runs.source_lines import SourceLines
from perfdoctor.runs.types import RankRecords, RunRecords

BEGAN_EPOCH_S = 1_700_000_000.0  # the command; the first step begins 3 s later
FIRST_STEP_S = 3.0


def records(folder, *, began_epoch_s=BEGAN_EPOCH_S):
    steps = np.zeros(2, dtype=[("begin_ns", "<i8"), ("end_ns", "<i8")])
    steps["begin_ns"] = 5_000_000_000 + int(FIRST_STEP_S * 1e9), 9_000_000_000
    rank = RankRecords(0, steps, None, ())
    run = {"started_epoch_s": began_epoch_s, "begin_ns": 5_000_000_000}
    return RunRecords(path=folder, run=run, ranks={0: rank})


def at(file, line):
    return Location(file, line, None, "its text")


def written(file, text, *, after_s=-10.0):
    """A file that was written so long after the run began."""
    file.write_text(text)
    os.utime(file, (BEGAN_EPOCH_S + after_s,) * 2)
    return str(file)


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


def test_a_file_that_was_written_after_the_run_began_has_no_lines_and_a_note(tmp_path):
    file, same = written(tmp_path / "train.py", "new\n", after_s=5.0), written(tmp_path / "net.py", "net\n")
    source = SourceLines.of(records(tmp_path))
    assert source(file, 1) is None
    assert source(same, 1) == "net"
    assert [note.values for note in source.notes()] == [{"files": ["train.py"]}]


def test_a_file_that_was_written_while_the_script_started_is_the_one_that_ran(tmp_path):
    file = written(tmp_path / "made.py", "made\n", after_s=FIRST_STEP_S - 1)
    source = SourceLines.of(records(tmp_path))
    assert source(file, 1) == "made"
    assert not list(source.notes())


def test_where_nothing_tells_when_the_run_began_files_are_read_as_they_are(tmp_path):
    file = written(tmp_path / "train.py", "new\n", after_s=5.0)
    source = SourceLines.of(records(tmp_path, began_epoch_s=None))
    assert source(file, 1) == "new"
    assert not list(source.notes())


@pytest.mark.parametrize("later", ["edited", "removed"])
def test_what_was_kept_is_what_ran(tmp_path, later):
    file = written(tmp_path / "train.py", 'first()\nsecond("a text")  # why\nthird("a text")  # why\n')
    earlier = SourceLines.of(records(tmp_path))
    assert earlier(file, 2) == 'second("a text")  # why'
    earlier.keep(tmp_path, [at(file, 3), at("elsewhere.py", 2)])
    if later == "edited":
        written(tmp_path / "train.py", "another\nline\n", after_s=60.0)
    else:
        os.unlink(file)
    source = SourceLines.of(records(tmp_path))
    shown = [source(file, line) for line in range(1, 5)]
    assert shown == ["first()", 'second("...")  ', 'third("a text")  # why', ""]
    assert not list(source.notes())


def test_of_a_file_that_is_no_python_only_shown_lines_are_kept(tmp_path):
    file = written(tmp_path / "train.cfg", "one (\ntwo (\n")
    source = SourceLines.of(records(tmp_path))
    source(file, 1)
    source.keep(tmp_path, [at(file, 2)])
    assert json.loads((tmp_path / SOURCES).read_text())["files"] == {file: ["", "two (", ""]}


def test_a_file_that_had_changed_when_the_run_ended_stays_so(tmp_path):
    file = written(tmp_path / "train.py", "new\n", after_s=5.0)
    earlier = SourceLines.of(records(tmp_path))
    earlier(file, 1)
    earlier.keep(tmp_path, [])
    os.utime(file, (BEGAN_EPOCH_S - 10,) * 2)  # as a copy on another machine may say
    source = SourceLines.of(records(tmp_path))
    assert source(file, 1) is None
    assert list(source.notes())


def test_secrets_are_kept_by_nobody(tmp_path):
    file = written(tmp_path / "train.py", 'password = "hunter2hunter2"\nlogin("alice", "hunter2hunter2")\n')
    source = SourceLines.of(records(tmp_path))
    source(file, 1)
    source.keep(tmp_path, [at(file, 1)])
    assert "hunter2" not in (tmp_path / SOURCES).read_text()


def test_only_so_much_is_kept_and_only_once(tmp_path, monkeypatch):
    monkeypatch.setattr(source_lines, "MOST_KEPT", 10)
    small, large = written(tmp_path / "a.py", "a\n"), written(tmp_path / "b.py", "b" * 20)
    source = SourceLines.of(records(tmp_path))
    for file in (small, large, str(tmp_path / "missing.py")):
        source(file, 1)
    source.keep(tmp_path, [])
    files = json.loads((tmp_path / SOURCES).read_text())["files"]
    assert files == {small: ["a", ""]}
    os.unlink(small)
    SourceLines({large: ["other"]}).keep(tmp_path, [])
    source.keep(tmp_path, [])
    assert json.loads((tmp_path / SOURCES).read_text())["files"] == files


def test_a_file_that_has_no_room_leaves_it_to_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(source_lines, "MOST_KEPT", 10)
    large, small = written(tmp_path / "a.py", "a" * 20), written(tmp_path / "b.py", "b\n")
    source = SourceLines.of(records(tmp_path))
    for file in (large, small):
        source(file, 1)
    source.keep(tmp_path, [])
    assert json.loads((tmp_path / SOURCES).read_text())["files"] == {small: ["b", ""]}


@pytest.mark.parametrize(
    "alien", ["", "[]", '{"files": 3}', '{"files": {"x.py": 3}}', '{"files": {"x.py": [1]}}']
)
def test_what_was_kept_and_cannot_be_read_is_read_from_the_files(tmp_path, alien):
    (tmp_path / SOURCES).write_text(alien.replace("x.py", str(tmp_path / "x.py")))
    file = written(tmp_path / "x.py", "line\n")
    assert SourceLines.of(records(tmp_path))(file, 1) == "line"


def test_a_folder_that_may_not_be_written_to_keeps_nothing(tmp_path):
    file = written(tmp_path / "x.py", "line\n")
    (tmp_path / (SOURCES + ".part")).mkdir()  # a draft that nobody can write
    source = SourceLines.of(records(tmp_path))
    source(file, 1)
    source.keep(tmp_path, [])
    assert not (tmp_path / SOURCES).exists()


def test_the_mark_before_a_text_is_no_part_of_it(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("import torch\n", encoding="utf-8-sig")
    assert SourceLines()(str(file), 1) == "import torch"
