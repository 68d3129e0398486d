"""Whole trials of small scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from perfdoctor import catalogue, trials
from perfdoctor.errors import PerfdoctorError
from perfdoctor.trial import Outcome, Trial, Variant
from perfdoctor.trials import flags

SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset

class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.002)
        return super().__getitem__(index)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Slow(torch.ones(200, 8), torch.ones(200, 1)), batch_size=8)
for epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
    print("epoch", epoch)
"""


class Heard:
    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended = False

    def begin(self, what: str, done: int, of: int, left_s: float | None) -> None:
        self.began.append(what)

    def say(self, sentence: str) -> None:
        pass

    def end(self) -> None:
        self.ended = True


def trial(folder: Path, code: str, *words: str, **asked: object) -> Trial:
    """A short trial of `code`, run as train.py in `folder`."""
    (folder / "train.py").write_text(code)
    variant = Variant(flags.read(words, catalogue.tweaks()))
    heard = Heard()
    try:
        return trials.run(
            trials.Asked(("train.py",), (variant,), str(folder), rounds=3, steps=20, **asked),  # type: ignore[arg-type]
            heard,
        )
    finally:
        assert heard.ended or not heard.began


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a trial changes to the folder of its command
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_workers_are_tried_beside_the_original_and_change_nothing_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("precious")
    found = trial(tmp_path, SCRIPT, "--workers", "2")
    (verdict,) = found.verdicts
    assert verdict.outcome in (Outcome.FASTER, Outcome.NO_DIFFERENCE)  # faster, where the machine is quiet
    assert len(found.originals) == len(verdict.executions) == 3
    assert {execution.steps for execution in (*found.originals, *verdict.executions)} == {20}
    assert verdict.agreement is not None
    assert verdict.agreement.same is True
    (place,) = verdict.executions[0].applied
    assert (place.what, place.was, place.now) == ("DataLoader num_workers", 0, 2)
    assert place.at is not None
    assert place.at.line == 12
    assert (tmp_path / "model.pt").read_text() == "precious"
    assert {entry.name for entry in tmp_path.iterdir()} == {"train.py", "model.pt", ".perfdoctor"}


def test_a_script_that_fails_as_it_is_has_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="fails as it is: ValueError: no data") as caught:
        trial(tmp_path, "import torch\nraise ValueError('no data')", "--workers", "2")
    assert caught.value.exit_code == 1
    assert "look.log" in str(caught.value.hint)


def test_a_script_that_never_steps_cannot_be_measured(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="without a training step"):
        trial(tmp_path, "import torch\nprint('done')", "--workers", "2")


def test_a_script_that_is_not_there_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match=r"gone\.py: there is no such file"):
        trials.run(trials.Asked(("gone.py",), (Variant(),), str(tmp_path)), Heard())


def test_auto_without_a_run_to_take_advice_from_says_so(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="no run of this command"):
        trials.walk(trials.Asked(("train.py",), (), str(tmp_path)), Heard())
