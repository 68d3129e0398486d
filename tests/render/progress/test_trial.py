from __future__ import annotations

import io
import sys
import time

import pytest

from perfdoctor.render.progress import trial
from perfdoctor.render.progress.trial import TrialProgress


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_the_line_says_what_runs_which_of_how_many_and_counts_down(clock):
    progress = TrialProgress(is_live=True, say=print)
    progress.begin("--workers 4", 2, 10, 200.0)
    assert progress.line(0.0) == "--workers 4 · 3 of 10 · about 3:20 min left"
    clock[0] += 50.0
    assert progress.line(50.0) == "--workers 4 · 3 of 10 · about 2:30 min left"
    clock[0] += 500.0
    assert progress.line(550.0) == "--workers 4 · 3 of 10 · nearly done"


def test_a_first_look_has_neither_number_nor_end(clock):
    progress = TrialProgress(is_live=True, say=print)
    progress.begin("original, calibration run", 0, 1, None)
    assert progress.line(1.0) == "original, calibration run"


def test_before_and_after_the_executions_the_line_shows_the_time(clock):
    progress = TrialProgress(is_live=True, say=print)
    assert progress.line(3.0) == "3 s"
    progress.begin("original", 0, 2, 9.0)
    progress.end()
    assert progress.line(75.0) == "1:15 min"


def test_without_a_terminal_each_execution_is_a_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    written = []
    with trial.shown(written.append) as progress:
        progress.begin("original", 0, 4, 60.0)
        progress.begin("--amp\x1b[31m", 1, 4, 45.0)
        progress.say("kept: --amp")
        progress.end()
    assert written == [
        "original · 1 of 4 · about 1:00 min left",
        "--amp\\x1b[31m · 2 of 4 · about 45 s left",
        "kept: --amp",
    ]


def test_on_a_terminal_executions_write_no_lines_of_their_own():
    written = []
    progress = TrialProgress(is_live=True, say=written.append)
    progress.begin("original", 0, 4, 60.0)
    progress.say("kept: --amp")
    assert written == ["kept: --amp"]
