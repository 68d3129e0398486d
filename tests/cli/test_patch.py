from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.model.trial import VariantResult
from perfdoctor.render.documents import trial as document
from perfdoctor.trials import trial_file
from tests.support import trial_results

pytestmark = pytest.mark.process

SCRIPT = "import torch\nloader = torch.utils.data.DataLoader([1, 2, 3])\n"


def keep(folder: Path, result: VariantResult, name: str = "20260102-030405-train") -> Path:
    path = folder / ".perfdoctor" / "trials" / name
    path.mkdir(parents=True)
    trial = trial_results.trial(result, cwd=str(folder), path=str(path))
    trial_file.keep(trial, document.document(trial))
    return path


@pytest.fixture
def faster(folder: Path) -> VariantResult:
    """What a trial of a script in the folder found."""
    (folder / "train.py").write_text(SCRIPT)
    at = Location(str(folder / "train.py"), 2, "<module>")
    applied = (replace(trial_results.APPLIED, at=at),)
    return replace(trial_results.FASTER, executions=trial_results.executions(0.03, applied=applied))


def test_the_newest_trials_diff_goes_to_stdout_and_the_rest_to_stderr(folder, faster, perfdoctor):
    keep(folder, faster)
    found = perfdoctor("patch")
    assert found.returncode == 0
    assert "+loader = torch.utils.data.DataLoader([1, 2, 3], num_workers=4)\n" in found.stdout
    assert found.stdout.startswith("--- a/train.py\n+++ b/train.py\n")
    assert "perfdoctor: --workers 4: faster: 1.9× (1.8–2.0×)\n" in found.stderr
    assert (folder / "train.py").read_text() == SCRIPT


def test_a_trial_is_named_by_its_folder_or_its_id(folder, faster, perfdoctor):
    path = keep(folder, faster)
    assert perfdoctor("patch", path.name).stdout == perfdoctor("patch", str(path)).stdout != ""


def test_where_nothing_can_be_written_it_says_so_and_fails(folder, faster, perfdoctor):
    keep(folder, faster)
    (folder / "train.py").write_text("import torch\nloader = make()\n")
    found = perfdoctor("patch")
    assert found.returncode == 1
    assert found.stdout == ""
    assert (
        "by hand: train.py:2 DataLoader num_workers: line 2 does not call DataLoader itself" in found.stderr
    )
    assert "nothing of it can be written as a diff" in found.stderr


def test_a_trial_that_found_nothing_faster(folder, perfdoctor):
    keep(folder, trial_results.SLOWER)
    found = perfdoctor("patch")
    assert found.returncode != 0
    assert "this trial found nothing that is faster" in found.stderr


def test_without_a_trial(folder, perfdoctor):
    found = perfdoctor("patch")
    assert found.returncode != 0
    assert "no trials yet" in found.stderr


def test_where_the_diff_is_not_of_this_folder_it_says_where_to_apply_it(folder, faster, perfdoctor):
    path = keep(folder, faster)
    assert "to apply it" not in perfdoctor("patch").stderr
    (folder / "elsewhere").mkdir()
    found = perfdoctor("patch", str(path), cwd=folder / "elsewhere")
    assert f"to apply it\n  cd {folder.resolve()} && perfdoctor patch {path} | git apply\n" in found.stderr


def test_a_diff_holds_the_files_own_letters_whatever_stdout_can_spell(folder, faster, perfdoctor):
    keep(folder, faster)
    (folder / "train.py").write_text(SCRIPT + "name = 'é ×'\n", encoding="utf-8")
    found = perfdoctor("patch", env={**os.environ, "PYTHONIOENCODING": "latin-1"}, encoding="utf-8")
    assert " name = 'é ×'\n" in found.stdout
