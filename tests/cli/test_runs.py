from __future__ import annotations


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
