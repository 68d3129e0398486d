"""The live line's figures, from the tail of the step records."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from perfdoctor.model.measured import Marker
from perfdoctor.runs import tails
from perfdoctor.watch.samplers.progress import NOTHING, ProgressReader, latest
from tests.support.processes import ROW_BYTES, header, wait_for

pytestmark = pytest.mark.process

MS = 1_000_000
GONE = 1 << 22  # one more than the largest number a process can have


def row(
    end_ms: int,
    begin_ms: int,
    marker: Marker = Marker.UPDATE,
    marks: int = 1,
    wait_ms: int = 0,
    optimizer: int = 1,
) -> bytes:
    packed = struct.pack("<qqBHIq", end_ms * MS, begin_ms * MS, marker, optimizer, marks, wait_ms * MS)
    assert len(packed) == ROW_BYTES
    return packed


def write(run: Path, rows: bytes, rank: int = 0, pid: int = 1) -> None:
    (run / f"steps.rank{rank}.bin").write_bytes(header(pid, rank) + rows + bytes(1000))


def test_nothing_is_known_before_there_are_rows(tmp_path: Path) -> None:
    assert latest(tmp_path) == NOTHING
    write(tmp_path, b"")
    assert latest(tmp_path) == NOTHING
    (tmp_path / "steps.rank0.bin").write_bytes(b"half a hea")
    assert latest(tmp_path) == NOTHING


def test_rate_and_waiting_share_are_those_of_the_last_seconds(tmp_path: Path) -> None:
    slow = b"".join(row(1000 * (k + 1), 1000 * k, wait_ms=1000) for k in range(20))
    fast = b"".join(row(20_000 + 100 * (k + 1), 20_000 + 100 * k, wait_ms=25) for k in range(200))
    write(tmp_path, slow + fast)
    found = latest(tmp_path)
    assert (found.rows, found.steps, found.marker) == (220, 220, Marker.UPDATE)
    assert found.steps_per_s == pytest.approx(10.0)
    assert found.waiting_share == pytest.approx(0.25)
    assert found.last_ns == 40_000 * MS


def test_rows_that_were_merged_count_for_all_their_steps(tmp_path: Path) -> None:
    write(tmp_path, row(1000, 0, marks=8) + row(2000, 1000, marks=8))
    found = latest(tmp_path)
    assert (found.rows, found.steps) == (2, 16)
    assert found.steps_per_s == pytest.approx(8.0)


def test_weaker_marks_were_no_steps_once_a_stronger_kind_appears(tmp_path: Path) -> None:
    calls = row(10, 0, Marker.OPEN) + row(20, 10, Marker.CALL) + row(30, 20, Marker.BACKWARD)
    write(tmp_path, calls)
    assert latest(tmp_path).steps == 1
    write(tmp_path, calls + row(40, 30) + row(50, 40) + row(60, 50, Marker.END))
    found = latest(tmp_path)
    assert (found.rows, found.steps, found.marker) == (6, 2, Marker.UPDATE)


def test_a_generator_and_its_discriminator_make_one_step_together(tmp_path: Path) -> None:
    write(tmp_path, b"".join(row(10 * (k + 1), 10 * k, optimizer=k % 2 + 1) for k in range(12)))
    found = latest(tmp_path)
    assert (found.rows, found.steps) == (12, 6)


def test_a_boundary_alone_is_no_step(tmp_path: Path) -> None:
    write(tmp_path, row(10, 0, Marker.OPEN))
    found = latest(tmp_path)
    assert (found.rows, found.steps, found.marker, found.steps_per_s) == (1, 0, None, None)


@pytest.mark.parametrize("block", [1, 3, 4096])
def test_a_follower_reads_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(tails, "FEW_ROWS", block)
    monkeypatch.setattr(tails, "BLOCK_ROWS", block)
    follower = ProgressReader(tmp_path)
    assert follower.look() == NOTHING
    rows = b""
    for k in range(10):
        rows += row(10 * (k + 1), 10 * k)
        write(tmp_path, rows)
        assert follower.look().steps == k + 1
    assert follower.look().steps == 10


def test_the_lowest_rank_is_followed_and_what_was_seen_outlives_the_folder(tmp_path: Path) -> None:
    write(tmp_path, row(10, 0), rank=10)
    write(tmp_path, row(10, 0) + row(20, 10), rank=2)
    follower = ProgressReader(tmp_path)
    assert follower.look().steps == 2
    for path in tmp_path.iterdir():
        path.unlink()
    assert follower.look().steps == 2


@pytest.mark.parametrize(("pid", "steps"), [(GONE, 3), (1, 2)])
def test_a_rank_that_is_started_again_is_followed_once_its_first_process_is_gone(
    tmp_path: Path, pid: int, steps: int
) -> None:
    write(tmp_path, row(10, 0) + row(20, 10), pid=pid)
    follower = ProgressReader(tmp_path)
    assert follower.look().steps == 2
    again = tmp_path / "steps.rank0.77.bin"
    started = header(77).replace(b'{"pid"', b'{"opened_epoch_s": 9.0, "pid"')[:4096]
    again.write_bytes(started + bytes(1000))
    assert follower.look().steps == 2  # it has not trained yet
    again.write_bytes(started + row(110, 100) + row(120, 110) + row(130, 120) + bytes(1000))
    assert follower.look().steps == steps
    write(tmp_path, row(10, 0), rank=1)
    assert follower.look().steps == steps


def test_a_process_that_nobody_has_asked_for_yet_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        write(tmp_path, row(10, 0) + row(20, 10), pid=process.pid)
        follower = ProgressReader(tmp_path)
        assert follower.look().steps == 2
        started = header(77).replace(b'{"pid"', b'{"opened_epoch_s": 9.0, "pid"')[:4096]
        (tmp_path / "steps.rank0.77.bin").write_bytes(started + row(110, 100) + bytes(1000))
        assert follower.look().steps == 1
