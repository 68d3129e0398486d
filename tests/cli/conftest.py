from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

RUN = {
    "schema": "perfdoctor.run/1",
    "id": "",
    "command": ["python", "train.py"],
    "cwd": "/home/ada",
    "pid": 7,
    "started_epoch_s": 1_700_000_000.0,
    "begin_ns": 1_000_000_000,
    "end_ns": 3_000_000_000,
    "exit_code": 0,
    "outcome": "ok",
    "versions": {"perfdoctor": "0.1.0"},
    "host": {},
    "environment": {},
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working directory, with no runs kept anywhere else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("PYTHONPATH", "PERFDOCTOR_RUN", "VIRTUAL_ENV", "CONDA_PREFIX", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def saved(folder):
    """Keeps a run that a script without any training left behind."""

    def save(name: str = "20260102-030405-train", parent: str = ".perfdoctor/runs", **fields: object) -> Path:
        path = folder / parent / name
        path.mkdir(parents=True)
        (path / "run.json").write_text(json.dumps(RUN | {"id": name} | fields))
        return path

    return save


@pytest.fixture
def perfdoctor(folder):
    """Runs the command line in a process of its own."""
    root = str(ROOT)

    def call(*words: str, **options) -> subprocess.CompletedProcess[str]:
        starter = f"import sys; sys.path.insert(0, {root!r}); from perfdoctor.cli import main; main()"
        options = {
            "capture_output": True,
            "text": True,
            "timeout": 60,
            "cwd": folder,
            "env": dict(os.environ),
        } | options
        return subprocess.run([sys.executable, "-c", starter, *words], check=False, **options)

    return call
