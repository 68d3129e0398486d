from __future__ import annotations

import subprocess
import sys

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


def test_a_job_of_two_runs_hides_one(folder, perfdoctor):
    write_job(folder / ".perfdoctor" / "runs", ranks=2, steps=5, per_task=True, job_id="slurm 7.0")
    last = perfdoctor("runs").stdout.splitlines()[-1]
    assert last == "1 more run holds other ranks of these jobs"


def test_many_runs_are_listed_without_looking_further_into_them(saved, folder):
    for number in range(3):
        saved(f"2026010{number}-030405-run", started_epoch_s=1e6 * number)
    code = (
        "import sys\n"
        "opened = []\n"
        "def note(event, arguments):\n"
        "    if event == 'open' and '.perfdoctor' in str(arguments[0]): opened.append(str(arguments[0]))\n"
        "sys.addaudithook(note)\n"
        "from perfdoctor.cli import app\n"
        "try: app.start(['runs'])\n"
        "except SystemExit: pass\n"
        "print(len(opened), 'numpy' in sys.modules, file=sys.stderr)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    assert len(shown.stdout.splitlines()) == 4
    assert shown.stderr == "6 False\n"  # run.json and report.json of each
