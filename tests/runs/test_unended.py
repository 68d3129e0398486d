from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from perfdoctor.runs.unended import SILENT_S, settled


@pytest.fixture
def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def run(
    folder: Path, pid: int, watcher: int, host: str = platform.node(), **told: object
) -> dict[str, object]:
    content = {"outcome": "running", "pid": pid, "host": {"name": host}, **told}
    (folder / "run.json").write_text(json.dumps(content))
    (folder / "config.json").write_text(json.dumps({"watcher_pid": watcher}))
    return content


def test_it_runs_as_long_as_its_command_or_its_watcher_lives(tmp_path: Path, ended: int) -> None:
    for pid, watcher in ((os.getpid(), ended), (ended, os.getpid())):
        assert settled(tmp_path, run(tmp_path, pid, watcher))["outcome"] == "running"


def test_it_is_lost_where_both_are_gone(tmp_path: Path, ended: int) -> None:
    assert settled(tmp_path, run(tmp_path, ended, ended))["outcome"] == "lost"


def test_on_another_host_its_files_tell(tmp_path: Path, ended: int) -> None:
    told = run(tmp_path, ended, ended, host="elsewhere")
    assert settled(tmp_path, told)["outcome"] == "running"
    before = os.stat(tmp_path / "run.json").st_mtime - 2 * SILENT_S
    os.utime(tmp_path / "run.json", (before, before))
    assert settled(tmp_path, told)["outcome"] == "lost"
    (tmp_path / "host.jsonl").touch()
    assert settled(tmp_path, told)["outcome"] == "running"


def test_a_command_that_outlasts_its_watch_is_told_from_one_that_has_its_number(tmp_path: Path) -> None:
    began_s = psutil.Process().create_time()
    for later_s, outcome in ((0.5, "running"), (7200.0, "lost")):  # the second one: of before a restart
        told = run(tmp_path, os.getpid(), os.getpid(), started_epoch_s=began_s - later_s)
        os.utime(tmp_path / "run.json", (1, 1))
        assert settled(tmp_path, told)["outcome"] == outcome


def test_what_has_ended_stays_as_it_was_written(tmp_path: Path, ended: int) -> None:
    told = run(tmp_path, ended, ended, outcome="signalled")
    assert settled(tmp_path, told) is told


def test_a_run_without_a_description_is_left_alone(tmp_path: Path) -> None:
    assert settled(tmp_path, {}) == {}


def test_where_the_system_has_no_proc_processes_are_found_all_the_same(
    tmp_path: Path, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: not str(path).startswith("/proc") and exists(path))
    assert settled(tmp_path, run(tmp_path, os.getpid(), ended))["outcome"] == "running"
    assert settled(tmp_path, run(tmp_path, ended, ended))["outcome"] == "lost"


def test_a_number_that_no_process_can_have_is_none(tmp_path: Path, ended: int) -> None:
    assert settled(tmp_path, run(tmp_path, 2**63, ended))["outcome"] == "lost"


def test_a_process_of_another_user_is_there(
    tmp_path: Path, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int, number: int) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "kill", refused)
    assert settled(tmp_path, run(tmp_path, 7, ended))["outcome"] == "running"
