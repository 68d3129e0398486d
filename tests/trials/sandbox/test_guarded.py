"""Executions whose perfdoctor is killed, at moments drawn at random: real processes, without torch."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from perfdoctor.trials.sandbox import leftovers
from perfdoctor.wire.names import RUN_VARIABLE
from tests.support.launching import environment, free_port

pytestmark = pytest.mark.process

SEED, KILLS = 7, 6
LATEST_S = 0.6  # some are killed before the script has begun

# What `perfdoctor try` does in its calibration run, and whenever it executes one after the other.
DRIVER = """
import sys
from pathlib import Path
from perfdoctor.runs import directory
from perfdoctor.trials.execution import Executor
from perfdoctor.trials.sandbox import protect

kept = directory.create(Path.cwd() / ".perfdoctor" / "trials", "train")
Executor(("train.py",), kept, protect.choose(kept, Path.cwd())).calibrate()
"""
# Holds a port and a block of shared memory, and starts what leaves its session, what is deaf, what has no
# environment, and what rests.
SCRIPT = """
import os, signal, socket, subprocess, sys, time
from multiprocessing import shared_memory

held = socket.socket()
held.bind(("127.0.0.1", PORT))
held.listen()
held.set_inheritable(True)
block = shared_memory.SharedMemory(create=True, size=1000, name=f"NAME-{os.getpid()}")
sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
deaf = [sys.executable, "-I", "-S", "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"]
subprocess.Popen(sleep, start_new_session=True, close_fds=False)
subprocess.Popen(deaf, start_new_session=True)
subprocess.Popen(sleep, start_new_session=True, close_fds=False, env={})
os.kill(subprocess.Popen(sleep).pid, signal.SIGSTOP)
print("begun", flush=True)
time.sleep(600)
"""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    number = int(free_port())
    code = SCRIPT.replace("PORT", str(number)).replace("NAME", f"perfdoctor-test-{os.getpid()}")
    (tmp_path / "train.py").write_text(code)
    yield number
    for process in running(tmp_path):
        process.kill()


def started(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen((sys.executable, "-c", DRIVER), cwd=folder, env=environment())


def running(folder: Path) -> list[psutil.Process]:
    """What runs for a folder's trials: executions, and guards."""
    own = str(folder / ".perfdoctor" / "trials")
    members = []
    for process in psutil.process_iter():
        try:
            named = process.environ().get(RUN_VARIABLE, "").startswith(own)
            if named or any(word.startswith(own) for word in process.cmdline()):
                members.append(process)
        except psutil.Error:
            continue
    return members


def begun(folder: Path) -> int:
    """How many executions have started all that they start."""
    logs = (folder / ".perfdoctor" / "trials").glob("*/calibration.log")
    return sum("begun" in log.read_text() for log in logs)


def is_free(port: int) -> bool:
    with socket.socket() as other:
        until_s = time.monotonic() + 2.0  # a port goes a moment after what can be seen of its process
        while True:
            try:
                other.bind(("127.0.0.1", port))
            except OSError:
                if time.monotonic() > until_s:
                    return False
                time.sleep(0.02)
            else:
                return True


def wait_until(happens: Callable[[], object]) -> None:
    until_s = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < until_s
        time.sleep(0.05)


@pytest.mark.shows("trial-killed")
def test_what_is_executed_ends_with_a_perfdoctor_that_is_killed_at_any_moment(
    tmp_path: Path, port: int
) -> None:
    moments = random.Random(SEED)
    for number in range(KILLS):
        before = begun(tmp_path)
        process = started(tmp_path)
        if number % 2:  # after all was started
            wait_until(lambda before=before: begun(tmp_path) > before)
        time.sleep(moments.uniform(0.0, LATEST_S))
        process.kill()
        process.wait()
        wait_until(lambda: not running(tmp_path))
        assert is_free(port)
        blocks = list(Path("/dev/shm").glob(f"perfdoctor-test-{os.getpid()}-*"))
        assert not (number % 2 and blocks)
        for block in blocks:  # made, and not yet known to the helper that gives it back
            block.unlink()


def abandoned(folder: Path) -> set[int]:
    """Kill perfdoctor and its guard together, once all was started; what lives on."""
    process = started(folder)
    wait_until(lambda: begun(folder))
    (guard,) = psutil.Process(process.pid).children()[:1]
    assert any("guard.py" in word for word in guard.cmdline())
    guard.suspend()  # neither sees the other's end
    process.kill()
    guard.kill()
    process.wait()
    return {each.pid for each in running(folder)}


@pytest.mark.shows("trial-killed")
def test_what_a_guard_left_that_was_killed_as_well_ends_when_the_next_trial_begins(
    tmp_path: Path, port: int
) -> None:
    left = abandoned(tmp_path)
    assert len(left) >= 4
    assert leftovers.end_abandoned() >= len(left)
    wait_until(lambda: not running(tmp_path))
    assert is_free(port)


def other(**names: str) -> subprocess.Popen[bytes]:
    environ = {**environment(), **names}
    return subprocess.Popen((sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"), env=environ)


@pytest.mark.shows("trial-killed")
def test_neither_a_run_nor_what_somebody_still_executes_is_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen(("sleep", "60"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: gone.pid)
        of_gone = leftovers.owned(tmp_path / "1-base")
    gone.kill()
    gone.wait()
    mine, run = leftovers.owned(tmp_path / "1-base"), str(tmp_path / "1-base")
    elsewhere = {leftovers.OWNER: of_gone[leftovers.OWNER].replace("pid:[", "pid:[9")}
    spared = [
        other(**{RUN_VARIABLE: run}),  # of `run`
        other(**{RUN_VARIABLE: str(tmp_path / "a-run"), **of_gone}),  # of a `run` inside of an execution
        other(**{RUN_VARIABLE: run, **mine}),  # of a trial that goes on: of this process
        other(**{RUN_VARIABLE: run, **elsewhere}),  # of a container, whose process ids are others
        other(**{RUN_VARIABLE: run, leftovers.OWNER: "nonsense"}),
    ]
    ended = other(**{RUN_VARIABLE: run, **of_gone})
    try:
        wait_until(
            lambda: all(RUN_VARIABLE in psutil.Process(each.pid).environ() for each in (*spared, ended))
        )
        assert leftovers.end_abandoned() == 1
        assert ended.wait(10) == -signal.SIGKILL
        assert all(each.poll() is None for each in spared)
    finally:
        for each in (*spared, ended):
            each.kill()
            each.wait()
