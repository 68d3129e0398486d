"""Whole trials of small scripts."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("torch")

from perfdoctor import trials
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.concluded import Gain
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.trial import Outcome, Trial, Variant
from perfdoctor.trials import trial as trial_module
from perfdoctor.trials.baseline_run import BaselineRun
from perfdoctor.trials.plan import TrialPlan
from perfdoctor.trials.sandbox import leftovers, protect
from perfdoctor.trials.settings import flags, tweak_catalogue
from tests.support import trial_results
from tests.support.launching import environment
from tests.support.processes import wait_for
from tests.support.trial_runs import execution

pytestmark = [pytest.mark.clock, pytest.mark.process]

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

    def say(self, remark: Remark) -> None:
        pass

    def end(self) -> None:
        self.ended = True


def trial(
    folder: Path, code: str, *words: str, command: tuple[str, ...] = ("train.py",), **asked: Any
) -> Trial:
    """A short trial of `code`, run as train.py in `folder`."""
    (folder / "train.py").write_text(code)
    variant = Variant(flags.read(words, tweak_catalogue.tweaks()))
    heard = Heard()
    try:
        return trials.run(
            trials.Request(command, (variant,), str(folder), **{"rounds": 3, "steps": 20} | asked), heard
        )
    finally:
        assert heard.ended or not heard.began


def slugged(found: Trial, slug: str) -> list[Note]:
    """The trial's notes of one kind."""
    return [note for note in found.notes if isinstance(note, Note) and note.slug == slug]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a trial changes to the folder of its command
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.shows("trial-leaves-files")
@pytest.mark.slow
def test_workers_are_tried_beside_the_original_and_change_nothing_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("precious")
    found = trial(tmp_path, SCRIPT, "--workers", "2")
    (verdict,) = found.verdicts
    assert verdict.outcome in (Outcome.FASTER, Outcome.NO_DIFFERENCE)  # faster, where the machine is quiet
    assert len(found.originals) == len(verdict.executions) == 3
    assert {execution.steps for execution in (*found.originals, *verdict.executions)} == {20}
    assert verdict.equivalence is not None
    assert verdict.equivalence.same is True
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
    assert "calibration.log" in str(caught.value.hint)


@pytest.mark.shows("trial-leaves-files")
def test_where_files_cannot_be_protected_nothing_is_started_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = protect.Protection("none", "files cannot be protected: the system permits nothing")
    monkeypatch.setattr(protect, "choose", lambda *given: none)
    code = "open('started', 'w')\nraise ValueError('started')"
    with pytest.raises(PerfdoctorError, match="files cannot be protected") as caught:
        trial(tmp_path, code, "--workers", "2")
    assert "--yes" in str(caught.value.hint)
    assert not (tmp_path / "started").exists()
    with pytest.raises(PerfdoctorError, match="ValueError: started"):
        trial(tmp_path, code, "--workers", "2", yes=True)


def test_a_script_that_never_steps_cannot_be_measured(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="before a training step could be measured"):
        trial(tmp_path, "import torch\nprint('done')", "--workers", "2")


def test_a_script_that_is_not_there_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match=r"gone\.py: there is no such file"):
        trials.run(trials.Request(("gone.py",), (Variant(),), str(tmp_path)), Heard())


def test_auto_without_a_run_to_take_advice_from_says_so(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="no run of this command"):
        trials.run(trials.Request(("train.py",), (), str(tmp_path), auto=True), Heard())


def test_a_script_that_fails_after_a_while_is_no_short_one(tmp_path: Path) -> None:
    code = SCRIPT.replace("    torch.save", "    raise KeyError(epoch)\n    torch.save")
    with pytest.raises(PerfdoctorError, match="fails as it is: KeyError: 0"):
        trial(tmp_path, code, "--workers", "2")


@pytest.mark.parametrize(("of_run", "longest"), [(400, 400), (300, None), (60, None), (None, None)])
def test_an_old_run_that_ended_where_training_goes_on_now_tells_no_length(
    of_run: int | None, longest: int | None
) -> None:
    cut = execution(losses=(1.0,) * 300, ended_early=True)
    baseline = BaselineRun(None, None, of_run)  # type: ignore[arg-type]
    assert trial_module._longest_steps(cut, baseline) == longest
    assert trial_module._longest_steps(replace(cut, ended_early=False), baseline) == 300


@pytest.mark.slow
def test_larger_batches_are_measured_over_the_samples_that_the_original_is_measured_over(
    tmp_path: Path,
) -> None:
    """Whose epochs have 25 steps, and 13 of twice the samples: each is measured over whole ones."""
    code = SCRIPT.replace("time.sleep(0.002)", "pass").replace("range(4)", "range(8)")
    found = trial(tmp_path, code, "--batch-size", "16", steps=50)
    (verdict,) = found.verdicts
    assert verdict.per == "sample"
    assert {each.steps for each in found.originals} == {50}
    assert {each.steps for each in verdict.executions} == {13}
    assert {each.warm_up_steps for each in found.originals} == {found.warm_up_steps}
    assert {2 * each.warm_up_steps for each in verdict.executions} == {found.warm_up_steps}
    assert "--batch-size 16" in [note.values["variant"] for note in slugged(found, "same-samples")]


def test_only_what_stayed_applied_was_measured_over_the_same_samples() -> None:
    faster = replace(trial_results.WITHDRAWN, outcome=Outcome.FASTER, speedup=Gain(1.1, 1.2, 1.3))
    plan = TrialPlan(5, 8, 40, 1.0, 60.0)
    assert trial_module._how_measured((), plan, [trial_results.WITHDRAWN]) == []
    (note,) = trial_module._how_measured((), plan, [faster])
    assert note.slug == "same-samples"


@pytest.mark.slow
def test_a_tweak_that_cannot_go_on_is_withdrawn_and_proves_nothing(tmp_path: Path) -> None:
    """The script throws the gradients of its eleventh batch away."""
    code = SCRIPT.replace("time.sleep(0.002)", "pass").replace(
        "        optimizer.step()\n",
        "        optimizer.step() if batches[0] != 10 else optimizer.zero_grad()\n        batches[0] += 1\n",
    )
    found = trial(tmp_path, code.replace("model =", "batches = [0]\nmodel =", 1), "--accumulate", "4")
    (verdict,) = found.verdicts
    assert (verdict.outcome, verdict.speedup) == (Outcome.WITHDRAWN, None)
    assert verdict.because.startswith("--accumulate withdrew after ")
    assert verdict.because.endswith(": optimizer.step: gradients are cleared without an update")
    (place,) = verdict.executions[0].withdrawn
    assert place.step == 3  # the first batch's update, then one for four batches each
    assert not slugged(found, "same-samples")


# ---------------------------------------------------------------- what goes wrong on the way

TORCHRUN = (
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "2",
    "train.py",
)
# The second rank fails where its loader has so many workers.
RANKS = """
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.ones(800_000, 8)), batch_size=8)
for step, (batch,) in enumerate(loader):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    if step == 5 and dist.get_rank() == 1 and loader.num_workers == WORKERS:
        raise ValueError("no shard for this rank")
dist.destroy_process_group()
"""


def running(folder: Path) -> list[psutil.Process]:
    """What still runs of the trials in a folder."""
    kept = (folder / ".perfdoctor" / "trials").glob("*/*")
    return [process for path in kept for process in leftovers.of(path, psutil.process_iter())]


@pytest.mark.slow
def test_a_rank_that_fails_as_it_is_is_named_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(
        PerfdoctorError, match=r"^the script fails as it is: rank 1: ValueError: no shard for this rank$"
    ) as caught:
        trial(tmp_path, RANKS.replace("WORKERS", "0"), "--workers", "1", command=TORCHRUN)
    assert caught.value.exit_code == 1
    assert not running(tmp_path)


@pytest.mark.slow
def test_a_rank_that_fails_in_a_variant_is_named_with_its_error(tmp_path: Path) -> None:
    found = trial(tmp_path, RANKS.replace("WORKERS", "1"), "--workers", "1", command=TORCHRUN)
    (verdict,) = found.verdicts
    assert (verdict.outcome, verdict.because) == (
        Outcome.FAILED,
        "rank 1: ValueError: no shard for this rank",
    )
    assert found.exit_code == 0
    assert not running(tmp_path)


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes, where one may be mounted."""
    path = tmp_path / "tiny"
    path.mkdir()
    mounted = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)), capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("nothing may be mounted here")
    yield path
    subprocess.run(("umount", "-l", str(path)), check=True)


WRITES = """
    if loader.num_workers == WORKERS:
        with open("large", "wb") as file:
            file.write(bytes(4_000_000))
"""


@pytest.mark.slow
def test_a_disk_that_is_too_small_for_what_the_script_writes_is_named(tmp_path: Path, tiny: Path) -> None:
    code = SCRIPT + WRITES.replace("WORKERS", "0")
    with pytest.raises(PerfdoctorError, match=f"no space left in {tiny}/trials/") as caught:
        trial(tmp_path, code, "--workers", "1", out=str(tiny / "trials"))
    assert caught.value.exit_code == 2
    assert "--out FOLDER" in str(caught.value.hint)
    assert not (tmp_path / "large").exists()


@pytest.mark.slow
def test_a_disk_that_is_full_in_the_middle_ends_the_trial(tmp_path: Path, tiny: Path) -> None:
    """What was measured until then is told, with the disk, and what was written is gone."""
    code = SCRIPT.replace("    for x, y", WRITES.replace("WORKERS", "1") + "    for x, y")
    found = trial(tmp_path, code, "--workers", "1", out=str(tiny))
    assert found.exit_code == 2
    assert [verdict.outcome for verdict in found.verdicts] == [Outcome.NOT_MEASURED]
    (ended,) = slugged(found, "trial-ended")
    assert ended.values["error"].startswith(f"no space left in {tiny}")
    assert not list(tiny.glob("*/*/view"))
    assert not (tmp_path / "large").exists()


@pytest.mark.slow
def test_what_a_script_writes_to_a_full_disk_of_its_own_fits_into_the_trials(
    tmp_path: Path, tiny: Path
) -> None:
    code = SCRIPT + WRITES.replace("WORKERS", "0").replace('"large"', f'"{tiny}/large"')
    assert trial(tmp_path, code, "--workers", "1").exit_code == 0
    assert not list(tiny.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_ends_the_trial_with_what_was_measured_and_leaves_nothing_running(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Even of a command whose own shell passes no signal on."""
    (tmp_path / "train.py").write_text(SCRIPT.replace("range(4)", "range(4000)"))
    (tmp_path / "train.sh").write_text(f"{sys.executable} train.py\n")
    words = ("try", "--json", "--workers", "1", "--seconds", "30", "--", "bash", "train.sh")
    process = subprocess.Popen(
        (sys.executable, "-m", "perfdoctor", *words),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:  # the second execution of the first round begins
        if "--workers 1 · 2 of " in line:
            break
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    told = json.loads(out)
    assert (told["interrupted"], told["exit_code"]) == (True, 128 + number)
    assert [variant["verdict"] for variant in told["variants"]] == ["not measured"]
    assert not running(tmp_path)


JOINED = """
import os, torch
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
"""


@pytest.mark.parametrize("words", [("--workers", "1", "--seconds", "90"), ("--ranks", "1,2")])
@pytest.mark.slow
@pytest.mark.shows("trial-killed")
def test_a_trial_that_is_killed_leaves_neither_ranks_nor_loader_workers(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Not even where its guard is killed as well, once the next one has begun."""
    alone = SCRIPT.replace("batch_size=8", "batch_size=8, num_workers=1").replace("range(4)", "range(4000)")
    (tmp_path / "train.py").write_text(JOINED + alone)
    moments = random.Random(3)
    for with_guard in (False, True):
        process = subprocess.Popen(
            (sys.executable, "-m", "perfdoctor", "try", *words, "--", "train.py"),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: len(running(tmp_path)) >= 2, 60.0)  # with a loader worker
        time.sleep(moments.uniform(0.0, 8.0))
        process.send_signal(signal.SIGSTOP)
        guards = [
            child for child in psutil.Process(process.pid).children() if "guard.py" in str(child.cmdline())
        ]
        for guard in guards if with_guard else []:
            guard.kill()
        process.kill()
        process.wait()
        if with_guard:
            leftovers.end_abandoned()
        wait_for(lambda: not running(tmp_path))
