from __future__ import annotations

import pytest

from tests.support.jobs import write_job

pytestmark = pytest.mark.process


def test_runs_are_listed_newest_first(saved, perfdoctor):
    saved("20260102-030405-old", started_epoch_s=1.0, exit_code=3, outcome="failed")
    saved("20260103-030405-new", started_epoch_s=2.0)
    shown = perfdoctor("runs")
    assert shown.returncode == 0
    assert [line.split()[0] for line in shown.stdout.splitlines()] == [
        "run",
        "20260103-030405-new",
        "20260102-030405-old",
    ]
    assert "failed with 3" in shown.stdout


def test_the_verdict_shows_once_a_report_was_made(saved, perfdoctor):
    saved()
    assert "inconclusive" not in perfdoctor("runs").stdout
    perfdoctor("report")
    assert "inconclusive" in perfdoctor("runs").stdout


def test_a_folder_without_runs_names_the_command_that_makes_one(folder, perfdoctor):
    shown = perfdoctor("runs", "--out", "nowhere")
    assert shown.returncode == 2
    assert "nowhere" in shown.stderr
    assert "perfdoctor run train.py" in shown.stderr


def test_runs_of_one_job_are_one_line_that_of_its_lowest_rank(saved, folder, perfdoctor):
    write_job(folder / ".perfdoctor" / "runs", ranks=3, steps=5, per_task=True, job_id="slurm 7.0")
    saved("20260103-030405-new", started_epoch_s=2e9)
    listed = perfdoctor("runs").stdout.splitlines()
    assert [line.split()[0] for line in listed[:-1]] == ["run", "20260103-030405-new", "task0"]
    assert listed[-1] == "2 more runs hold other ranks of these jobs"
