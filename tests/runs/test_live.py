from __future__ import annotations

import json
import os
import platform
import shutil

import psutil
import pytest

from perfdoctor.errors import NoSuchRun, NotARun
from perfdoctor.runs.live import RECENT_ROWS, LiveRun
from tests.support.jobs import write_job

GONE = 1 << 22  # one more than the largest number a process can have


@pytest.fixture
def run(tmp_path):
    """The folder of a job of two ranks that goes on."""
    write_job(tmp_path, ranks=2, steps=100, exit_code=None)
    return tmp_path / "node0"


def change(run, **fields):
    told = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(told | fields))


def test_each_rank_is_told_with_its_steps_and_its_last_rows(run):
    seen = LiveRun(run).look()
    assert seen.steps == {0: 100, 1: 100}
    assert {rank: len(one.steps) for rank, one in seen.recent.ranks.items()} == {0: 100, 1: 100}
    assert seen.recent.ranks[1].node == "node0"
    assert len(seen.recent.host) == 2
    assert seen.steps_per_s[0] > 0
    assert not seen.is_gone
    assert seen.silent_s < 60


def test_what_is_added_is_seen_at_the_next_look(run, tmp_path):
    steps = run / "steps.rank1.bin"
    whole = steps.read_bytes()
    begun = whole[:4096] + bytes(len(whole) - 4096)  # allocated, and no row yet
    steps.write_bytes(begun)
    live = LiveRun(run)
    assert live.look().steps == {0: 100, 1: 0}
    steps.write_bytes(whole)
    assert live.look().steps == {0: 100, 1: 100}


def test_a_rank_that_comes_later_is_found(run):
    kept = run.parent / "kept"
    shutil.move(run / "steps.rank1.bin", kept)
    live = LiveRun(run)
    assert live.look().steps == {0: 100}
    shutil.move(kept, run / "steps.rank1.bin")
    assert live.look().steps == {0: 100, 1: 100}


def test_of_a_rank_that_was_started_again_the_process_that_trains_now_counts(tmp_path):
    write_job(tmp_path, ranks=2, steps=100, exit_code=None)
    live = LiveRun(tmp_path / "node0")
    assert live.look().steps == {0: 100, 1: 100}
    write_job(tmp_path, ranks=2, steps=30, attempt=1, begin_ns=90_000_000_000, exit_code=None)
    assert live.look().steps == {0: 30, 1: 30}


def test_a_long_step_leaves_enough_rows_to_tell_a_mean(tmp_path):
    phases = {"forward": 4000.0}
    write_job(tmp_path, ranks=1, steps=40, phases=phases, exit_code=None)
    assert len(LiveRun(tmp_path / "node0").look().recent.ranks[0].steps) == RECENT_ROWS


def test_nothing_in_the_folder_is_touched(run):
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    live = LiveRun(run)
    live.look()
    live.look()
    assert {path.name: path.stat().st_mtime_ns for path in run.iterdir()} == before


def test_what_was_seen_outlives_the_folder(run):
    live = LiveRun(run)
    live.look()
    shutil.rmtree(run)
    assert live.look().steps == {0: 100, 1: 100}


@pytest.mark.parametrize("damage", [b"", b"{}", b"[" * 9999, b'{"schema": 7}', b"\xff"])
def test_a_folder_that_holds_no_run_is_named(tmp_path, damage):
    with pytest.raises(NotARun, match="is not a perfdoctor run"):
        LiveRun(tmp_path)
    (tmp_path / "run.json").write_bytes(damage)
    with pytest.raises(NotARun):
        LiveRun(tmp_path)
    with pytest.raises(NoSuchRun):
        LiveRun(tmp_path / "nowhere")


def test_damaged_files_leave_what_others_tell(run):
    (run / "steps.rank1.bin").write_bytes(b"half a hea")
    (run / "boot.jsonl").write_bytes(b'[1]\n{"pid": {}}\n{"job": 7, "pid": -1}\nnull\n')
    (run / "host.jsonl").write_bytes(b"\0" * 100)
    (run / "gpu0.jsonl").write_text('{"index": 0, "utilisation": 0.5}\n')
    (run / "gpux.jsonl").write_text("{}\n")
    seen = LiveRun(run).look()
    assert seen.steps == {0: 100}
    assert seen.recent.host == ()
    assert [row["utilisation"] for row in seen.recent.gpus[0]] == [0.5]


def test_rows_without_a_column_that_steps_have_are_left_out(run):
    columns = [["end_ns", "<i8"], ["begin_ns", "<i8"]]
    fields = {"pid": 1, "rank": 1, "row_bytes": 16, "columns": columns}
    (run / "steps.rank1.bin").write_bytes(json.dumps(fields).encode().ljust(4095) + b"\n" + b"\1" * 64)
    assert LiveRun(run).look().steps == {0: 100}


@pytest.mark.parametrize(
    ("host", "pid", "watcher", "is_gone"),
    [
        (platform.node(), GONE, GONE, True),
        (platform.node(), GONE, os.getpid(), False),  # perfdoctor makes its report
        (platform.node(), os.getpid(), GONE, False),  # perfdoctor was killed, the command was not
        ("elsewhere", GONE, GONE, False),  # nobody here can ask
    ],
    ids=["both-gone", "report-is-made", "watcher-killed", "elsewhere"],
)
def test_whether_anybody_is_left_is_known_on_their_own_host(run, host, pid, watcher, is_gone):
    change(run, pid=pid, host={"name": host})
    (run / "config.json").write_text(json.dumps({"watcher_pid": watcher}))
    assert LiveRun(run).look().is_gone is is_gone


def test_silence_is_since_the_newest_file_was_written(run):
    for path in run.iterdir():
        os.utime(path, (1, 1))
    os.utime(run / "steps.rank1.bin", None)
    assert LiveRun(run).look().silent_s < 60
    os.utime(run / "steps.rank1.bin", (1, 1))
    assert LiveRun(run).look().silent_s > 1e6


def test_a_command_may_outlast_its_watch(run):
    change(
        run, pid=os.getpid(), host={"name": platform.node()}, started_epoch_s=psutil.Process().create_time()
    )
    assert not LiveRun(run).look().outlasts_its_watch
    for path in run.iterdir():
        os.utime(path, (1, 1))
    assert LiveRun(run).look().outlasts_its_watch
    change(run, pid=GONE)
    os.utime(run / "run.json", (1, 1))
    assert not LiveRun(run).look().outlasts_its_watch
