"""Runs a piece of code in a child process with the probe injected, and reads back what it recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from perfdoctor.runs import directory
from perfdoctor.runs import records as recorded
from perfdoctor.watch.unwatched import INJECT
from tests.support.launching import free_port

TIMEOUT_S = 120


def watched(folder: Path, code: str, **environment: str) -> recorded.RunRecords:
    """The records of `code`, run as a script in `folder`; its failure fails the test."""
    env = prepared(folder, code, **environment)
    subprocess.run([sys.executable, "script.py"], cwd=folder, env=env, check=True, timeout=TIMEOUT_S)
    return read(folder)


def together(folder: Path, code: str, **environment: str) -> recorded.RunRecords:
    """The records of `code` in two ranks, which find each other as under a launcher; either's failure fails."""
    env = prepared(folder, code, **environment)
    processes = start_ranks(folder, env)
    try:
        status = [process.wait(TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert status == [0, 0]
    return read(folder)


def prepared(folder: Path, code: str, **environment: str) -> dict[str, str]:
    """The environment in which the script that is now in `folder` is watched."""
    run = folder / "run"
    run.mkdir()
    directory.write_json(run / "run.json", {"schema": directory.SCHEMA})
    (folder / "script.py").write_text(textwrap.dedent(code))
    return {**os.environ, "PYTHONPATH": INJECT, "PERFDOCTOR_RUN": str(run), **environment}


def start_ranks(folder: Path, env: dict[str, str], stdout: int | None = None) -> list[subprocess.Popen[str]]:
    """Two ranks of the script in `folder`, started as a launcher would."""
    env = {**env, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    command = [sys.executable, "script.py"]
    return [
        subprocess.Popen(command, cwd=folder, env={**env, "RANK": rank}, stdout=stdout, text=True)
        for rank in "01"
    ]


def read(folder: Path) -> recorded.RunRecords:
    """What was recorded there, by a probe without troubles."""
    log = folder / "run" / "probe.log"
    assert not log.exists(), log.read_text()
    return recorded.read(folder / "run")


def updates(records: recorded.RunRecords, rank: int = 0) -> recorded.Rows:
    """The rows that an optimizer step closed."""
    steps = records.ranks[rank].steps
    assert steps is not None
    return steps[steps["marker"] == 4]


def seconds(rows: recorded.Rows, phase: str) -> float:
    """Seconds of one phase over all rows."""
    return float(rows[phase].sum()) / 1e9
