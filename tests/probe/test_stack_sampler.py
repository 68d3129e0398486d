"""Stack samples taken from within the process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from perfdoctor.probe import stack_sampler
from perfdoctor.probe.stack_sampler import InProcessSampler, begin
from perfdoctor.runs.raw import Stack, read_stacks
from tests.support.processes import wait_for

pytestmark = pytest.mark.process

HERE = __file__


def read(path: Path) -> tuple[str | None, tuple[Stack, ...]]:
    return read_stacks(path, [])


def spin(until: threading.Event) -> None:
    while not until.is_set():
        sum(range(1000))  # the line


SPIN_LINE = spin.__code__.co_firstlineno + 2


def test_the_line_that_takes_the_time_is_found(tmp_path: Path) -> None:
    path = tmp_path / "stacks.rank0.txt"
    done = threading.Event()
    spinning = threading.Thread(target=spin, args=(done,))
    spinning.start()
    taken = InProcessSampler(str(path), "main", spinning.ident or 0, rate_hz=100.0)
    for _ in range(50):
        taken.sample(own=threading.get_ident())
        time.sleep(0.001)
    done.set()
    spinning.join()
    taken.end()
    source, stacks = read(path)
    assert source == "in-process"
    mine = [(frames, count) for frames, count in stacks if frames[0] == "main"]
    assert sum(count for _, count in mine) == 50
    assert all(f"spin ({HERE}:" in " ".join(frames) for frames, _ in mine)
    at_line = sum(count for frames, count in mine if f"spin ({HERE}:{SPIN_LINE})" in frames)
    assert at_line >= 25


def test_it_samples_by_itself_and_shows_other_threads_by_name(tmp_path: Path) -> None:
    path = tmp_path / "stacks.rank0.txt"
    done = threading.Event()
    other = threading.Thread(target=spin, args=(done,), name="a;b\nc")
    other.start()
    known_before = threading.active_count()
    taken = begin(str(path), threading.get_ident(), rate_hz=200.0)
    assert threading.active_count() == known_before  # the script's own count of threads is unchanged
    wait_for(lambda: len(taken._counts) >= 2)
    taken.end()
    done.set()
    other.join()
    labels = {frames[0] for frames, _ in read(path)[1]}
    assert {"main", "thread a:b c"} <= labels


def test_chunks_are_appended_and_add_up(tmp_path: Path) -> None:
    path = tmp_path / "stacks.rank0.txt"
    taken = InProcessSampler(str(path), "main", threading.get_ident(), rate_hz=20.0)
    for _ in range(3):
        taken.sample(own=0)
        taken.flush()
    text = path.read_text()
    assert text.count("# source=in-process rate_hz=20 idle=1 ends=1\n") == 1
    assert text.count("# end\n") == 3
    assert sum(count for frames, count in read(path)[1] if frames[0] == "main") == 3
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.shows("long-and-many")
def test_a_file_that_has_grown_too_large_ends_the_sampling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_sampler, "LARGEST_FILE_BYTES", 10)
    path = tmp_path / "stacks.rank0.txt"
    taken = InProcessSampler(str(path), "main", threading.get_ident(), rate_hz=20.0)
    taken.sample(own=0)
    taken.flush()
    assert taken._ended
    assert not path.exists()


@pytest.mark.shows("fork")
def test_a_fork_does_not_write_its_parents_samples(tmp_path: Path) -> None:
    path = tmp_path / "stacks.rank0.txt"
    taken = InProcessSampler(str(path), "main", threading.get_ident(), rate_hz=20.0)
    taken.sample(own=0)
    child = os.fork()
    if child == 0:
        taken.end()
        os._exit(0)
    os.waitpid(child, 0)
    assert not path.exists()
    taken.end()
    assert path.exists()


SCRIPT = """
import sys, time
sys.path.insert(0, {root!r})
from perfdoctor.probe import stack_sampler
import threading
time.sleep = time.perf_counter = None  # scripts mock these
stack_sampler.begin({path!r}, threading.get_ident(), rate_hz=200.0)
total = 0
for k in range(200):
    total += sum(range(10000))
print("done")
"""


def test_what_was_sampled_is_written_at_exit_without_delay_or_words(tmp_path: Path) -> None:
    root = str(Path(stack_sampler.__file__).parents[2])
    path = tmp_path / "stacks.rank0.txt"
    script = SCRIPT.format(root=root, path=str(path))
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
    assert any(frames[0] == "main" for frames, _ in read(path)[1])


def test_a_run_directory_that_is_gone_is_no_error_to_the_script(tmp_path: Path) -> None:
    root = str(Path(stack_sampler.__file__).parents[2])
    script = SCRIPT.format(root=root, path=str(tmp_path / "gone" / "stacks.rank0.txt"))
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_permission_to_look_is_given_to_the_process_named(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    class Library:
        def prctl(self, option: int, pid: ctypes.c_ulong, *_: int) -> int:
            calls.append((option, pid.value))
            return -1  # as where there is no Yama

    monkeypatch.setattr(stack_sampler.ctypes, "CDLL", lambda _: Library())
    stack_sampler.permit(4321)
    assert calls == [(0x59616D61, 4321)]
    monkeypatch.setattr(stack_sampler.ctypes, "CDLL", lambda _: object())
    stack_sampler.permit(4321)  # a system without prctl
