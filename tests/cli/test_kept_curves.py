from __future__ import annotations

import json
from dataclasses import replace

import pytest

from perfdoctor.cli import kept_curves
from perfdoctor.runs import directory
from perfdoctor.wire.names import MEASURING
from tests.support import old_runs, reports

MEASURED = (
    {"event": "loader", "id": 77, "num_workers": 2, "batch_size": 8, "dataset": "Digits"},
    {"event": "loading", "id": 77, "built": 1},
    {"event": "loading_stretch", "kind": "warm", "workers": 2, "batches": 100, "seconds": 5.0},
    {"event": "loading_end", "outcome": "whole"},
)


@pytest.fixture
def measured(tmp_path):
    """A measurement of a loader, and a report of the run of the same command beside it."""
    path = old_runs.unpacked("loader", tmp_path / "runs")
    (path / MEASURING).touch()
    with (path / "events.rank0.jsonl").open("a") as events:
        for event in MEASURED:
            events.write(json.dumps(event) + "\n")
    told = json.loads((path / "run.json").read_text())
    run = replace(reports.STARVED.run, command=("/usr/bin/python3.12", *told["command"][1:]), cwd=told["cwd"])
    return path, replace(reports.STARVED, run=run, path=str(path.parent / "a run"))


def test_the_curve_of_the_same_command_is_found_beside_the_run_and_in_the_folder_of_runs(measured):
    path, report = measured
    beside = kept_curves.of_command(report, "/nowhere")
    assert beside.path == str(path)
    assert [setting.workers for setting in beside.settings] == [2]
    elsewhere = replace(report, path="/nowhere/a run")
    assert kept_curves.of_command(elsewhere, str(path.parent)) == beside


def test_the_curve_is_found_where_loader_keeps_it_by_itself_from_here_and_from_elsewhere(
    measured, tmp_path, monkeypatch
):
    path, report = measured
    kept = tmp_path / ".perfdoctor" / "loaders" / path.name
    kept.parent.mkdir(parents=True)
    path.rename(kept)
    run = tmp_path / ".perfdoctor" / "runs" / "a run"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    assert directory.home(kind="loaders") == kept.parent
    for told, out in (
        ("/nowhere/a run", None),
        (str(run), "/nowhere"),
        (".perfdoctor/runs/a run", "/nowhere"),
    ):
        assert kept_curves.of_command(replace(report, path=told), out).path == str(kept), told


def test_other_commands_folders_and_runs_that_trained_give_none(measured):
    path, report = measured
    for run in (replace(report.run, command=("other.py",)), replace(report.run, cwd="/other")):
        assert kept_curves.of_command(replace(report, run=run), "/nowhere") is None
    (path / MEASURING).unlink()
    assert kept_curves.of_command(report, "/nowhere") is None


def test_a_measurement_that_measured_nothing_is_passed_by(measured):
    path, report = measured
    for file in path.glob("events.*"):
        file.unlink()
    assert kept_curves.of_command(report, "/nowhere") is None
