import errno
import os
import subprocess
import sys

import pytest

from perfdoctor.runs import raw, records
from perfdoctor.wire import files
from perfdoctor.wire.batch_rows import BATCHES
from perfdoctor.wire.events.script import ThreadsEvent
from perfdoctor.wire.rows import HEADER_BYTES
from perfdoctor.wire.step_rows import STEPS

pytestmark = pytest.mark.process

ROW = (200, 100, 4, 0, 1, 1, 1, 1, 1, 4, 64, 0.5, 90, 10, 0, 20, 30, 0, 5, 0, 0)


def read(path):
    problems = []
    rows = records.read_rows(path, problems)
    assert not problems
    return rows


def test_rows_are_read_back_by_their_own_header(tmp_path):
    path = tmp_path / "steps.rank0.bin"
    rows = files.MappedRows(str(path), STEPS, 0)
    rows.add(*ROW)
    rows.add(300, *ROW[1:])
    back = read(path)
    assert list(back["end_ns"]) == [200, 300]
    assert back["loss"][0] == 0.5
    assert back["optimizer_ns"][0] == 5


def test_a_file_grows_past_its_first_allocation(tmp_path):
    path = tmp_path / "steps.rank0.bin"
    rows = files.MappedRows(str(path), STEPS, 0)
    ends = range(ROW[0], ROW[0] + files.GROW_BYTES // STEPS.packer.size * 3)
    for end in ends:
        rows.add(end, *ROW[1:])
    assert list(read(path)["end_ns"]) == list(ends)


def test_the_last_row_can_be_asked_for_a_column(tmp_path):
    rows = files.MappedRows(str(tmp_path / "steps.rank0.bin"), STEPS, 0)
    assert rows.last("calls") == 0
    rows.add(*ROW)
    assert (rows.last("end_ns"), rows.last("samples"), rows.last("marker")) == (200, 64, 4)


@pytest.mark.shows("killed", "os-exit")
@pytest.mark.process
def test_rows_survive_the_kill_of_their_writer(tmp_path):
    path = tmp_path / "steps.rank0.bin"
    code = (
        "import os, signal\n"
        "from perfdoctor.wire import files\n"
        "from perfdoctor.wire.step_rows import STEPS\n"
        f"rows = files.MappedRows({str(path)!r}, STEPS, 0)\n"
        f"rows.add(*{ROW})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert len(read(path)) == 1


def test_a_second_writer_of_the_same_file_is_refused(tmp_path):
    path = str(tmp_path / "steps.rank0.bin")
    files.MappedRows(path, STEPS, 0)
    with pytest.raises(FileExistsError):
        files.MappedRows(path, STEPS, 0)


@pytest.mark.shows("disk-full")
def test_a_full_disk_is_an_error_before_anything_is_mapped(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        files.MappedRows(str(tmp_path / "steps.rank0.bin"), STEPS, 0)


def test_workers_append_to_the_file_that_was_prepared_for_them(tmp_path):
    path = str(tmp_path / "workers.rank0.bin")
    files.AppendedRows.prepare(path, BATCHES, 0)
    files.AppendedRows.prepare(path, BATCHES, 0)
    first, second = files.AppendedRows(path, BATCHES), files.AppendedRows(path, BATCHES)
    for end, rows in ((1, first), (2, second), (3, first)):
        rows.add(end, 0, 7, 0, 1, 1, 64, 5, 4, 3, 2, 1024, 0)
    assert list(read(tmp_path / "workers.rank0.bin")["end_ns"]) == [1, 2, 3]


def test_lines_carry_event_time_and_process(tmp_path):
    lines = files.EventLog(str(tmp_path / "events.rank0.jsonl"))
    lines.add(ThreadsEvent(intra_op=1, at={"file": "a\ud800.py", "line": 3}))
    problems = []
    (entry,) = raw.read_lines(tmp_path / "events.rank0.jsonl", problems)
    assert (entry["event"], entry["intra_op"], entry["pid"]) == ("threads", 1, os.getpid())
    assert not problems


def test_a_loss_that_comes_late_reaches_its_row(tmp_path):
    path = tmp_path / "steps.rank0.bin"
    rows = files.MappedRows(str(path), STEPS, 0)
    unknown = [*ROW]
    unknown[[name for name, _ in STEPS.columns].index("loss")] = float("nan")
    rows.add(*unknown)
    rows.add(*ROW)
    rows.amend_loss(0, 2.0)
    rows.amend_loss(1, 0.25)
    assert list(read(path)["loss"]) == [2.0, 0.75]


def test_the_line_that_names_the_columns_ends_where_it_ends():
    header = files.header(STEPS, 3)
    assert len(header) == HEADER_BYTES
    line, rest = header.split(b"\n", 1)
    assert line.startswith(b"{")
    assert line.endswith(b"}")
    assert rest.strip() == b""


@pytest.mark.shows("guest")
@pytest.mark.parametrize("kind", ["rows", "events"])
def test_a_script_that_closes_all_files_and_opens_its_own_finds_nothing_of_ours_in_them(tmp_path, kind):
    code = f"""
import os, sys
from perfdoctor.wire import files
from perfdoctor.wire.events.script import ThreadsEvent
from perfdoctor.wire.step_rows import STEPS
rows = files.MappedRows({str(tmp_path / "rows")!r}, STEPS, 0)
log = files.EventLog({str(tmp_path / "events")!r})
os.closerange(3, 64)
own = [open({str(tmp_path)!r} + f"/own{{number}}", "w") for number in range(8)]
if {kind!r} == "rows":
    for _ in range(3 * files.GROW_BYTES // STEPS.packer.size):
        rows.add(*{ROW!r})
else:
    log.add(ThreadsEvent(intra_op=3, at=None))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [path.stat().st_size for path in tmp_path.glob("own*")] == [0] * 8
    if kind == "rows":
        assert len(read(tmp_path / "rows")) == 3 * files.GROW_BYTES // STEPS.packer.size
    else:
        assert b'"intra_op":3' in (tmp_path / "events").read_bytes().replace(b" ", b"")
