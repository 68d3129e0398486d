from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from perfdoctor.trials.sandbox import leftovers
from perfdoctor.wire.names import RUN_VARIABLE

pytestmark = pytest.mark.process

LONG_S = "60"
# Told to end, its first thread does so, and another one goes on.
HALF_ENDED = f"""
import ctypes, signal, threading, time
signal.signal(signal.SIGTERM, lambda *_: ctypes.CDLL(None).pthread_exit(None))
threading.Thread(target=time.sleep, args=({LONG_S},)).start()
print("ready", flush=True)
time.sleep({LONG_S})
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[psutil.Process]]:
    """Processes that the test started: they end with it."""
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.2)
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        if process.is_running():
            process.kill()


def orphan(code: str, execution: Path) -> psutil.Process:
    """A process whose parent has ended, in a session of its own."""
    env = {**os.environ, RUN_VARIABLE: str(execution)}
    shell = f"{code} & echo $!"
    done = subprocess.run(
        ("setsid", "sh", "-c", shell), env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=30
    )
    return psutil.Process(int(done.stdout))


def lives(process: psutil.Process) -> bool:
    """Whether it still does something: an orphan that has ended waits for whoever adopts it."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def gone(process: psutil.Process) -> bool:
    until_s = time.monotonic() + 10
    while lives(process) and time.monotonic() < until_s:
        time.sleep(0.02)
    return not lives(process)


def test_what_an_execution_left_running_is_ended_and_nothing_else(
    tmp_path: Path, started: list[psutil.Process]
) -> None:
    quiet = f"sleep {LONG_S} >/dev/null 2>&1"
    deaf = f"(trap '' TERM; exec sleep {LONG_S}) >/dev/null 2>&1"
    own = [orphan(quiet, tmp_path / "1-base"), orphan(deaf, tmp_path / "1-base")]
    other = orphan(quiet, tmp_path / "2-base")
    started += [*own, other]
    leftovers.end(tmp_path / "1-base")
    assert all(map(gone, own))
    assert lives(other)


def test_threads_that_outlive_the_first_one_are_ended_as_well(
    tmp_path: Path, started: list[psutil.Process]
) -> None:
    execution = tmp_path / "1-base"
    with subprocess.Popen(
        (sys.executable, "-c", HALF_ENDED),
        env={**os.environ, RUN_VARIABLE: str(execution)},
        stdout=subprocess.PIPE,
    ) as process:
        started.append(psutil.Process(process.pid))
        assert process.stdout is not None
        process.stdout.readline()
        leftovers.end(execution)
        assert process.wait(10) == -signal.SIGKILL


def test_where_nothing_is_left_nothing_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers.time, "sleep", lambda seconds: pytest.fail("it waits"))
    leftovers.end(tmp_path / "1-base")
