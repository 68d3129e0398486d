"""Roles of the processes of a run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from perfdoctor.watch.samplers.processes import ProcessTree, read_header
from tests.support.processes import BUSY, FORKING, header, python, steps_file, wait_for

pytestmark = pytest.mark.process


def roles(tree: ProcessTree) -> list[str]:
    return [member.role for member in tree.look(time.monotonic())]


def test_before_a_step_is_recorded_every_process_is_another(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        assert roles(ProcessTree(tmp_path, target.pid)) == ["other"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_that_multiprocessing_started_are_workers(tmp_path: Path, method: str) -> None:
    with python(tmp_path, FORKING.format(method=method)) as target:
        steps_file(tmp_path, target.pid)
        tree = ProcessTree(tmp_path, target.pid)
        wait_for(lambda: roles(tree).count("worker") == 2)
        assert roles(tree)[0] == "main"
        assert all(member.rank == 0 for member in tree.look(time.monotonic()))


@pytest.mark.shows("subprocess")
def test_a_tool_that_the_script_started_is_no_worker(tmp_path: Path) -> None:
    source = "import subprocess, sys, time\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)\n"
    with python(tmp_path, source) as target:
        steps_file(tmp_path, target.pid)
        tree = ProcessTree(tmp_path, target.pid)
        wait_for(lambda: roles(tree) == ["main", "other"])


def test_a_child_that_declared_itself_is_a_worker_whatever_it_looks_like(tmp_path: Path) -> None:
    source = "import subprocess, sys, time\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)\n"
    with python(tmp_path, source) as target:
        steps_file(tmp_path, target.pid)
        tree = ProcessTree(tmp_path, target.pid)
        wait_for(lambda: roles(tree) == ["main", "other"])
        child = tree.look(time.monotonic())[1].pid
        lines = [b"broken", json.dumps({"event": "worker", "pid": child}).encode()]
        (tmp_path / "events.rank0.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        assert roles(tree) == ["main", "worker"]


def test_an_epoch_declares_its_workers_too(tmp_path: Path) -> None:
    source = "import subprocess, time\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)\n"
    with python(tmp_path, source) as target:
        steps_file(tmp_path, target.pid)
        tree = ProcessTree(tmp_path, target.pid)
        wait_for(lambda: roles(tree) == ["main", "other"])
        child = tree.look(time.monotonic())[1].pid
        (tmp_path / "events.rank0.jsonl").write_text(
            json.dumps({"event": "epoch", "workers": [child]}) + "\n"
        )
        assert roles(tree) == ["main", "worker"]


def test_a_second_process_of_the_same_rank_is_a_training_process(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        steps_file(tmp_path, target.pid).rename(tmp_path / f"steps.rank3.{target.pid}.bin")
        member = ProcessTree(tmp_path, target.pid).look(0.0)[0]
    assert (member.role, member.tag, member.rank) == ("main", f"rank3.{target.pid}", 3)


def test_a_run_that_has_ended_has_no_processes(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        steps_file(tmp_path, target.pid)
        tree = ProcessTree(tmp_path, target.pid)
        assert roles(tree) == ["main"]
        target.kill()
        wait_for(lambda: roles(tree) == [])  # a zombie already counts as gone
        target.wait()
        assert roles(tree) == []


def test_a_stranger_with_the_number_of_a_training_process_that_ended_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with python(tmp_path, BUSY) as target, python(tmp_path, BUSY) as stranger:
        steps_file(tmp_path, target.pid)
        tree = ProcessTree(tmp_path, target.pid)
        assert roles(tree) == ["main"]
        target.kill()
        wait_for(lambda: roles(tree) == [])
        assert roles(tree) == []  # still a zombie
        target.wait()
        process = psutil.Process
        numbers = {target.pid: stranger.pid}
        monkeypatch.setattr(psutil, "Process", lambda pid: process(numbers.get(pid, pid)))
        assert roles(tree) == []


def test_a_process_that_is_older_than_the_run_is_none_of_it(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        steps_file(tmp_path, os.getppid())
        assert roles(ProcessTree(tmp_path, target.pid)) == ["other"]


UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork")


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*UNSHARE, "true"], check=False).returncode != 0,
    reason="no namespace of processes can be made here",
)
def test_a_training_process_in_a_container_is_found_by_the_number_it_has_there(tmp_path: Path) -> None:
    source = f"import subprocess, sys\nsubprocess.run([*{UNSHARE}, sys.executable, '-c', {BUSY!r}])\n"
    with python(tmp_path, source) as target:
        steps_file(tmp_path, 1)
        tree = ProcessTree(tmp_path, target.pid)
        wait_for(lambda: "main" in roles(tree))
        (pid,) = tree.mains
        wait_for(lambda: "import time" in " ".join(psutil.Process(pid).cmdline()))
        assert pid > 1
        for member in tree.look(time.monotonic()):
            member.process.kill()


def test_two_looks_at_the_same_time_are_one(tmp_path: Path) -> None:
    tree = ProcessTree(tmp_path, os.getpid())
    assert tree.look(1.0) is tree.look(1.0)
    assert tree.look(2.0) is not tree.look(1.0)


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b"[1]\n", b"\xff" * 4096, header(1)[:40]])
def test_a_header_that_cannot_be_read_is_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "steps.rank0.bin"
    path.write_bytes(data)
    assert read_header(path) is None


def test_a_header_is_read_with_its_control_bytes_set(tmp_path: Path) -> None:
    path = tmp_path / "steps.rank0.bin"
    data = bytearray(header(77))
    data[4093:4095] = b"\x01\x01"
    path.write_bytes(bytes(data))
    found = read_header(path)
    assert found is not None
    assert found["pid"] == 77


def boot(run: Path, pid: int, rank: int, **told: object) -> None:
    job = {"rank": rank, "world": 2, **told}
    with open(run / "boot.jsonl", "a") as file:
        file.write(json.dumps({"event": "boot", "pid": pid, "job": job}) + "\n")


def test_a_process_of_another_host_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target, python(tmp_path, BUSY) as stranger:
        boot(tmp_path, stranger.pid, 0, host="elsewhere")  # where that number is a rank's
        boot(tmp_path, target.pid, 1, host=os.uname().nodename)
        steps_file(tmp_path, stranger.pid, rank=0)
        steps_file(tmp_path, target.pid, rank=1)
        members = ProcessTree(tmp_path, target.pid).look(0.0)
    assert [(member.pid, member.role, member.rank) for member in members] == [(target.pid, "main", 1)]


def test_a_rank_is_known_by_its_number_until_it_trains(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        tree = ProcessTree(tmp_path, target.pid)
        assert (tree.ranks(0.0), tree.is_job()) == ({}, False)
        boot(tmp_path, target.pid, 1)
        boot(tmp_path, 1 << 22, 0)  # ended before it trained
        with open(tmp_path / "boot.jsonl", "a") as file:
            file.write('{"event": "boot", "pid": 5}\n{"event": "boot", "pi')
        assert (tree.ranks(1.0), tree.is_job()) == ({"rank1": target.pid}, True)
        steps_file(tmp_path, target.pid, rank=1)
        steps_file(tmp_path, 1 << 22, rank=0)
        assert tree.ranks(2.0) == {"rank0": 1 << 22, "rank1": target.pid}


def test_ranks_that_no_launcher_numbered_are_a_job_by_their_files(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        tree = ProcessTree(tmp_path, target.pid)
        steps_file(tmp_path, target.pid, rank=0)
        tree.look(0.0)
        assert not tree.is_job()
        steps_file(tmp_path, 1 << 22, rank=1)
        tree.look(1.0)
        assert tree.is_job()
