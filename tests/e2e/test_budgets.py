"""The time limits that users give are kept, start-ups of interpreters apart; what did not fit into them is said."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

from perfdoctor.runs import directory, records
from tests.support.launching import environment

pytestmark = [pytest.mark.clock, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(600)]

ENDLESS = """
import itertools, time, torch
from torch.utils.data import DataLoader, TensorDataset

class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.002)
        return super().__getitem__(index)

torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in itertools.count():
    for x, y in DataLoader(Slow(torch.ones(400, 8), torch.ones(400, 1)), batch_size=8):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""
OVER = 0.25  # of the seconds given: what is under way when they are over comes to its end
TIMEOUT_S = 300.0

Spent = Callable[..., tuple[float, str]]


@pytest.fixture
def spent(tmp_path: Path) -> Spent:
    """How many seconds `perfdoctor WORDS` takes, and what it says."""
    (tmp_path / "train.py").write_text(ENDLESS)

    def timed(*words: str) -> tuple[float, str]:
        began_s = time.monotonic()
        done = subprocess.run(
            (sys.executable, "-m", "perfdoctor", *words),
            cwd=tmp_path,
            env=environment(OMP_NUM_THREADS="1"),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        interrupted = done.stderr.count("KeyboardInterrupt")  # the script's own way to end when it is stopped
        assert done.stderr.count("Traceback") == interrupted, done.stderr
        return time.monotonic() - began_s, done.stdout + done.stderr

    return timed


@pytest.fixture
def start_s() -> float:
    """What it takes an interpreter to start and to import torch, on this machine as busy as it is."""
    began_s = time.monotonic()
    subprocess.run((sys.executable, "-c", "import torch"), check=True, timeout=TIMEOUT_S)
    return time.monotonic() - began_s


@pytest.mark.shows("budgets")
def test_a_watch_ends_after_its_seconds_and_the_script_with_it_where_that_is_asked_for(
    spent: Spent, start_s: float, tmp_path: Path
) -> None:
    seconds = 4.0
    took_s, _ = spent("run", "-q", "--seconds", str(seconds), "--stop", "train.py")
    assert took_s < seconds * (1 + OVER) + 3 * start_s
    steps = records.read(directory.latest(tmp_path / ".perfdoctor" / "runs")).ranks[0].steps
    assert steps is not None
    assert (int(steps["end_ns"][-1]) - int(steps["begin_ns"][0])) / 1e9 < seconds * (1 + OVER)


@pytest.mark.shows("budgets")
def test_a_trial_takes_no_more_than_its_seconds(spent: Spent, start_s: float) -> None:
    seconds = 40.0
    took_s, said = spent("try", "--workers", "1", "--seconds", str(seconds), "--", "train.py")
    assert took_s < seconds * (1 + OVER) + 3 * start_s
    assert "--workers 1" in said


@pytest.mark.shows("budgets")
def test_a_trial_whose_seconds_are_too_few_says_how_many_it_takes(spent: Spent, start_s: float) -> None:
    seconds = 5.0
    took_s, said = spent("try", "--workers", "1", "--seconds", str(seconds), "--", "train.py")
    over = took_s > seconds * (1 + OVER) + 3 * start_s
    assert not over or "are too short" in said


@pytest.mark.shows("budgets")
def test_loaders_are_measured_within_their_seconds_and_what_is_missing_is_said(
    spent: Spent, start_s: float
) -> None:
    seconds = 8.0
    took_s, said = spent("loader", "--seconds", str(seconds), "--workers", "1,2,3,4,5,6,7,8", "train.py")
    assert took_s < seconds * (1 + OVER) + 3 * start_s
    assert "--seconds" in said


@pytest.mark.shows("budgets")
def test_a_link_is_measured_within_its_seconds(spent: Spent, start_s: float) -> None:
    seconds = 3.0
    took_s, said = spent("net", "--seconds", str(seconds), "--ranks", "2", "--json")
    assert took_s < seconds * (1 + OVER) + 4 * start_s
    assert json.loads(said[said.index("{") : said.rindex("}") + 1])["schema"] == "perfdoctor.net/1"
