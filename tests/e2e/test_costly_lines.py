"""Real runs: wherever the seconds of a step go, the line that they go into is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from perfdoctor.runs import directory

pytestmark = [pytest.mark.clock, pytest.mark.process, pytest.mark.slow]

TIMEOUT_S = 150
PLANTED = "# planted"
# Each script trains for some seconds, and spends most of them in the planted line: chance decides nothing.
COPIES_WEIGHTS = """
    import copy
    import time
    import torch
    model = torch.nn.Linear(32, 4)
    model.register_buffer("table", torch.zeros(5_000_000))
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        optimizer.zero_grad()
        model(torch.ones(32, 32)).pow(2).mean().backward()
        optimizer.step()
        latest = copy.deepcopy(model.state_dict())  # planted
"""
COPIES_RECORDS = """
    import copy
    import time
    import torch
    model = torch.nn.Linear(32, 4)
    records = [[float(number)] for number in range(2_000)]
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        optimizer.zero_grad()
        model(torch.ones(32, 32)).pow(2).mean().backward()
        optimizer.step()
        latest = copy.deepcopy(records)  # planted
"""
DRAWS_SLOWLY = """
    import time
    import torch
    from torch.utils.data import DataLoader, TensorDataset, Sampler

    class Weighted(Sampler):
        def __iter__(self):
            weights, end = [1.0] * 20_000, time.monotonic() + 8
            while time.monotonic() < end:
                total = sum(weights)  # planted
                yield int(total) % 64

    data = TensorDataset(torch.randn(64, 16))
    model = torch.nn.Linear(16, 1)
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in DataLoader(data, batch_size=32, sampler=Weighted()):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
"""
LOOPS_IN_FORWARD = """
    import time
    import torch

    class Pairs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(16, 16)
        def forward(self, x):
            x, total = self.layer(x), 0.0
            with torch.no_grad():
                for row in range(len(x)):
                    total = total + (x[row] - x).abs().amin()  # planted
            return x.pow(2).mean() + total

    model = Pairs()
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        x = torch.ones(400, 16)
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
"""
SLOW_IN_A_WORKER = """
    import time
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Words(Dataset):
        def __len__(self):
            return 100_000
        def __getitem__(self, index):
            text = "one two three four five " * 400
            found = [word for word in text.split() if word.upper().startswith("T")]  # planted
            return torch.tensor([float(len(found))] * 16)

    if __name__ == "__main__":
        model = torch.nn.Linear(16, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        end = time.monotonic() + 15
        for x in DataLoader(Words(), batch_size=32, num_workers=1):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
            if time.monotonic() > end:
                break
"""
RECURRENCE = """
    import time
    import torch

    class Cell(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(64, 64) / 8)
        def forward(self, x):
            state = x[:, 0]
            for turn in range(x.shape[1]):
                state = torch.tanh(state @ self.weight + x[:, turn])
            return state.pow(2).mean()

    model = Cell()
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        optimizer.zero_grad()
        model(torch.ones(64, 60, 64)).backward()
        optimizer.step()
"""


def report(script: str, folder: Path) -> dict[str, Any]:
    """Run the script watched, and return `report --json`."""
    run(script, folder)
    return shown(folder)


def run(script: str, folder: Path) -> None:
    """Run the script watched."""
    (folder / "train.py").write_text(dedent(script).lstrip("\n"), encoding="utf-8")
    words = [sys.executable, "-m", "perfdoctor", "run", "-q", "--out", "runs", "train.py"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=TIMEOUT_S)


def shown(folder: Path) -> dict[str, Any]:
    """What `report --json` says of the run."""
    perfdoctor = [sys.executable, "-m", "perfdoctor"]
    words = [*perfdoctor, "report", "--json", str(directory.latest(folder / "runs"))]
    told = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return dict(json.loads(told.stdout))


def planted(script: str) -> int:
    """The number of the planted line."""
    lines = dedent(script).lstrip("\n").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(PLANTED))


@pytest.mark.parametrize(
    ("script", "phase", "wait", "verdict", "finding"),
    [
        pytest.param(COPIES_RECORDS, "other", None, "host", "costly-line", id="other"),
        pytest.param(DRAWS_SLOWLY, "data_wait", "sampler", "data", "costly-line", id="data-wait"),
        pytest.param(LOOPS_IN_FORWARD, "forward", None, "compute", "tensor-loops", id="forward"),
    ],
)
def test_the_planted_line_is_the_costliest_and_a_finding_names_it(
    script, phase, wait, verdict, finding, tmp_path
):
    pytest.importorskip("torch")
    found = report(script, tmp_path)
    costliest = found["lines"]["lines"][0]
    assert (costliest["at"]["line"], costliest["phase"], costliest["wait"]) == (planted(script), phase, wait)
    assert found["bottleneck"]["verdict"] == verdict
    (named,) = [each for each in found["findings"] if each["id"] == finding]
    assert named["at"][0]["line"] == planted(script)


def test_the_planted_line_of_a_workers_dataset_is_the_costliest_and_left_to_the_finding_on_it(tmp_path):
    pytest.importorskip("torch")
    found = report(SLOW_IN_A_WORKER, tmp_path)
    costliest = max(
        (line for line in found["lines"]["lines"] if line["in_worker"]), key=lambda line: line["self_s"]
    )
    assert (costliest["at"]["line"], costliest["wait"]) == (planted(SLOW_IN_A_WORKER), "dataset")
    ids = {finding["id"] for finding in found["findings"]}
    assert ids & {"slow-dataset-code", "too-few-workers"}
    assert "costly-line" not in ids


def test_the_planted_line_that_copies_the_weights_is_left_to_the_finding_on_it(tmp_path):
    pytest.importorskip("torch")
    found = report(COPIES_WEIGHTS, tmp_path)
    (named,) = [finding for finding in found["findings"] if finding["id"] == "large-copies-every-step"]
    assert named["at"][0]["line"] == planted(COPIES_WEIGHTS)
    assert "costly-line" not in {finding["id"] for finding in found["findings"]}


def test_a_recurrence_in_the_forward_pass_is_needed_and_no_finding(tmp_path):
    pytest.importorskip("torch")
    found = report(RECURRENCE, tmp_path)
    assert "costly-line" not in {finding["id"] for finding in found["findings"]}
    assert found["lines"]["lines"]


def test_the_report_stays_as_it_was_when_the_script_is_edited_and_when_it_is_gone(tmp_path):
    pytest.importorskip("torch")
    run(LOOPS_IN_FORWARD, tmp_path)
    found = json.loads((directory.latest(tmp_path / "runs") / "report.json").read_text())
    assert planted(LOOPS_IN_FORWARD) in {at["line"] for each in found["findings"] for at in each["at"]}
    (tmp_path / "train.py").write_text("import time\n" * 40, encoding="utf-8")
    assert shown(tmp_path) == found
    (tmp_path / "train.py").unlink()
    assert shown(tmp_path) == found
