"""Runs a piece of code in a child process with the probe injected, and reads back what it recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from perfdoctor import recorded, rundir
from perfdoctor.missed import INJECT


def watched(folder: Path, code: str, **environment: str) -> recorded.RunRecords:
    """The records of `code`, run as a script in `folder`; its failure fails the test."""
    run = folder / "run"
    run.mkdir()
    rundir.write_json(run / "run.json", {"schema": rundir.SCHEMA})
    (folder / "script.py").write_text(textwrap.dedent(code))
    env = {**os.environ, "PYTHONPATH": INJECT, "PERFDOCTOR_RUN": str(run), **environment}
    subprocess.run([sys.executable, "script.py"], cwd=folder, env=env, check=True, timeout=120)
    records = recorded.read(run)
    log = run / "probe.log"
    assert not log.exists(), log.read_text()
    return records


def updates(records: recorded.RunRecords, rank: int = 0) -> recorded.Rows:
    """The rows that an optimizer step closed."""
    steps = records.ranks[rank].steps
    assert steps is not None
    return steps[steps["marker"] == 4]


def seconds(rows: recorded.Rows, phase: str) -> float:
    """Seconds of one phase over all rows."""
    return float(rows[phase].sum()) / 1e9
