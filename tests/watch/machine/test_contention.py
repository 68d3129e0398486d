from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.watch.machine import contention

pytestmark = [pytest.mark.process, pytest.mark.clock]

FACTORS = {"threads": 2, "compute": {"1": 1.5}, "worker": {"1": 1.4}}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(contention, "_quiet", lambda cores: True)


@pytest.fixture
def python(tmp_path):
    """An interpreter that answers with FACTORS and counts its calls in a file."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\necho called >> {tmp_path}/calls\necho '{json.dumps(FACTORS)}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def records(tmp_path, python, seconds=30, outcome="ok", events=("cost", "loader")):
    run = tmp_path / "run"
    run.mkdir(exist_ok=True)
    own = RankRecords(0, None, None, tuple({"event": name, "pid": 7} for name in events))
    boot = {"pid": 7, "threads": 2, "executable": str(python), "torch": "2.13.0"}
    described = {"begin_ns": 10**9, "end_ns": 10**9 + int(seconds * 1e9), "outcome": outcome}
    return RunRecords(run, described, {0: own}, (boot,))


def calls(tmp_path):
    file = tmp_path / "calls"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_it_is_measured_and_left_beside_the_run(tmp_path, python):
    told = []
    found = contention.note(records(tmp_path, python), told.append)
    assert found is not None
    assert found["compute"] == {"1": 1.5}
    assert json.loads((tmp_path / "run" / "sharing.json").read_text()) == found
    assert len(told) == 1


def test_a_machine_is_measured_once(tmp_path, python):
    told = []
    for _ in range(2):
        contention.note(records(tmp_path, python), told.append)
    assert calls(tmp_path) == 1
    assert len(told) == 1


def test_other_numbers_of_threads_are_measured_on_their_own(tmp_path, python):
    here = records(tmp_path, python)
    contention.note(here, print)
    event = {"event": "threads", "intra_op": 1}
    own = replace(here.ranks[0], events=(*here.ranks[0].events, event))
    contention.note(replace(here, ranks={0: own}), print)
    assert calls(tmp_path) == 2


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"seconds": 4.9}, id="a-short-run"),
        pytest.param({"outcome": "failed"}, id="a-run-that-failed"),
        pytest.param({"events": ("cost",)}, id="no-loader"),
        pytest.param({"events": ("cost", "loader", "device")}, id="an-accelerator"),
        pytest.param({"events": ("loader",)}, id="nobody-trained"),
    ],
)
def test_nothing_is_measured_for(tmp_path, python, given):
    assert contention.note(records(tmp_path, python, **given), print) is None
    assert calls(tmp_path) == 0


def test_a_busy_machine_is_not_measured(tmp_path, python, monkeypatch):
    monkeypatch.setattr(contention, "_quiet", lambda cores: False)
    assert contention.note(records(tmp_path, python), print) is None
    assert calls(tmp_path) == 0


@pytest.mark.parametrize("answer", ["echo nonsense", "echo []", "exit 3"])
def test_an_interpreter_that_cannot_tell_leaves_nothing(tmp_path, python, answer):
    python.write_text(f"#!/bin/sh\n{answer}\n")
    assert contention.note(records(tmp_path, python), print) is None
    assert not (tmp_path / "run" / "sharing.json").exists()


def test_an_interpreter_that_has_gone_leaves_nothing(tmp_path):
    assert contention.note(records(tmp_path, Path("/nowhere/python")), print) is None


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_run_directory_of_somebody_else_is_read_all_the_same(tmp_path, python):
    here = records(tmp_path, python)
    here.path.chmod(0o500)
    assert contention.note(here, print) is not None


def test_the_real_program_gives_a_factor_for_each_number_of_workers(monkeypatch):
    monkeypatch.setattr(contention, "SECONDS", 0.05)
    found = contention.measure(sys.executable, 1, 2)
    assert found is not None
    assert found["threads"] == 1
    assert set(found["compute"]) == set(found["worker"]) == {"1", "2"}
    assert all(factor > 0 for factor in [*found["compute"].values(), *found["worker"].values()])
