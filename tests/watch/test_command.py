from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from perfdoctor.errors import CannotStart, PerfdoctorError
from perfdoctor.watch.command import Command, interpreter, resolve

NOWHERE = {"PATH": "/nowhere"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_python_code_goes_to_the_interpreter(folder: Path) -> None:
    (folder / "app").mkdir()
    (folder / "app" / "__main__.py").touch()
    with zipfile.ZipFile(folder / "archive", "w") as archive:
        archive.writestr("__main__.py", "")
    for words in (
        ["train.py", "a"],
        ["app"],
        ["archive"],
        ["-m", "pkg.train"],
        ["-"],
        ["-u", "train.py"],
        ["-c", "x"],
    ):
        assert resolve(words, NOWHERE).argv == (sys.executable, *words)


def test_a_command_on_the_path_stays_as_typed(folder: Path) -> None:
    program(folder / "bin" / "torchrun")
    words = ("torchrun", "--nproc-per-node", "2", "train.py")
    assert resolve(words, {"PATH": str(folder / "bin")}).argv == words


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["some/where/train.py"], "train"),
        (["-m", "package.train", "x"], "package.train"),
        (["-mpackage.train"], "package.train"),
        (["-um", "package.train"], "package.train"),
        (["-"], "stdin"),
        (["-c", "print()"], "code"),
        (["-W", "ignore", "-X", "dev", "train.py"], "train"),
        (["-Wonce", "-Ximporttime", "train.py"], "train"),
        (["torchrun", "--nproc-per-node", "2", "src/train.py", "--eval.py"], "train"),
        (["bash", "jobs/train.sh"], "train"),
        (["accelerate", "launch", "-m", "x"], "accelerate"),
    ],
)
def test_a_run_is_called_by_what_it_trains(folder: Path, words: list[str], name: str) -> None:
    for command in ("torchrun", "bash", "accelerate"):
        program(folder / "bin" / command)
    assert resolve(words, {"PATH": str(folder / "bin")}).name == name


def test_only_a_file_given_to_an_interpreter_can_be_missing(folder: Path) -> None:
    python = program(folder / "bin" / "python3.12")
    assert resolve(["train.py"], NOWHERE).script_is_missing
    assert resolve([python, "-u", "train.py"], NOWHERE).script_is_missing
    assert not resolve([python, "-m", "train"], NOWHERE).script_is_missing
    (folder / "train.py").touch()
    assert not resolve(["train.py"], NOWHERE).script_is_missing


@pytest.mark.shows("notebook")
@pytest.mark.parametrize("words", [[], [""], ["train.ipynb"]])
def test_what_is_no_command_is_refused_with_what_to_type(folder: Path, words: list[str]) -> None:
    with pytest.raises(PerfdoctorError) as caught:
        resolve(words, NOWHERE)
    assert caught.value.hint


def test_a_file_here_that_is_not_on_the_path_is_pointed_at(folder: Path) -> None:
    program(folder / "train")
    with pytest.raises(CannotStart) as caught:
        resolve(["train"], NOWHERE)
    assert caught.value.exit_code == 127
    assert caught.value.hint is not None
    assert "./train" in caught.value.hint
    assert resolve(["./train"], NOWHERE).argv == ("./train",)


def environment_with(folder: Path, torch: bool) -> str:
    program(folder / "bin" / "python")
    if torch:
        package = folder / "lib" / "python3.11" / "site-packages" / "torch"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    return str(folder)


@pytest.mark.shows("other-interpreter")
def test_the_active_environment_gives_the_interpreter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(folder / "ours"))
    venv, conda = environment_with(folder / "venv", True), environment_with(folder / "conda", True)
    assert interpreter({"VIRTUAL_ENV": venv, "CONDA_PREFIX": conda}) == f"{venv}/bin/python"
    assert interpreter({"CONDA_PREFIX": conda}) == f"{conda}/bin/python"
    assert interpreter({}) == sys.executable
    assert interpreter({"VIRTUAL_ENV": str(folder / "gone")}) == sys.executable


@pytest.mark.shows("other-interpreter")
def test_an_active_environment_without_torch_gives_way_to_one_that_has_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = environment_with(folder / "base", False)
    monkeypatch.setattr(sys, "prefix", environment_with(folder / "ours", True))
    assert interpreter({"CONDA_PREFIX": base}) == sys.executable
    monkeypatch.setattr(sys, "prefix", str(folder / "bare"))
    assert interpreter({"CONDA_PREFIX": base}) == f"{base}/bin/python"


def test_a_launcher_that_is_a_python_script_is_pythons_and_a_shell_script_is_not(tmp_path: Path) -> None:
    for name, first in (("torchrun", "#!/opt/env/bin/python3"), ("train.sh", "#!/bin/sh")):
        (tmp_path / name).write_text(f"{first}\n")
    assert Command((str(tmp_path / "torchrun"),), "torchrun").is_python
    assert Command(("python3.11", "-m", "train"), "train").is_python
    assert not Command((str(tmp_path / "train.sh"),), "train").is_python
    assert not Command((str(tmp_path / "missing"),), "missing").is_python
