"""The built package: sdist and wheel hold what they should, and the wheel works in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BUILT = "PERFDOCTOR_DIST"  # a folder with a wheel and an sdist to test; without it they are built here
BUILD_TIMEOUT_S, INSTALL_TIMEOUT_S, COMMAND_TIMEOUT_S = 120, 300, 120
UNPACKED = ("CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "constraints.txt", "pyproject.toml")

# The training, and on its last line: the interpreter, and where the parts of perfdoctor in this process come from.
SCRIPT = """
import json, re, sys
import torch

model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()

files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
own = [file for file in files if re.search("/perfdoctor/(?![.]venv/)", file)]  # not a checkout's environment
print(json.dumps([sys.executable, own]))
"""

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(BUILD_TIMEOUT_S + INSTALL_TIMEOUT_S + COMMAND_TIMEOUT_S),
]


def alone(*words: str | Path, cwd: Path, timeout: float = COMMAND_TIMEOUT_S) -> str:
    """What a command prints that sees nothing of this checkout; fails with its errors where it fails."""
    hidden = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "PERFDOCTOR_RUN")
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def only(folder: Path, pattern: str) -> Path:
    """The one file of a folder that has this name."""
    (file,) = folder.glob(pattern)
    return file


def package_files() -> set[str]:
    """All files of the package in this checkout, as a wheel names them."""
    files = (ROOT / "perfdoctor").rglob("*")
    return {
        file.relative_to(ROOT).as_posix()
        for file in files
        if file.is_file() and "__pycache__" not in file.parts
    }


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds wheel and sdist; the wheel is built from the sdist."""
    if given := os.environ.get(BUILT):
        return Path(given).resolve()
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    alone(*build, cwd=folder, timeout=BUILD_TIMEOUT_S)
    return folder


@pytest.fixture(scope="module")
def perfdoctor(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment with the wheel and what it depends on, which torch is no part of."""
    environment = tmp_path_factory.mktemp("fresh") / "venv"
    alone(sys.executable, "-m", "venv", environment, cwd=dist)
    pip = (environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    wheel = only(dist, "*.whl")
    locked = ("--require-hashes", "--requirement", ROOT / "requirements" / "run.txt")
    alone(*pip, *locked, cwd=dist, timeout=INSTALL_TIMEOUT_S)
    alone(*pip, "--no-deps", wheel, cwd=dist, timeout=INSTALL_TIMEOUT_S)
    alone(*pip[:3], "check", cwd=dist)  # nothing is missing from what is locked
    return environment / "bin" / "perfdoctor"


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == package_files()
    assert names >= {"perfdoctor/probe/inject/sitecustomize.py", "perfdoctor/py.typed"}


def test_the_sdist_holds_what_building_and_testing_take(dist: Path) -> None:
    with tarfile.open(only(dist, "*.tar.gz")) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    assert {name for name in names if name.startswith("perfdoctor/")} == package_files()
    assert names.issuperset(UNPACKED)
    tests = {file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("*.py")}
    assert names >= tests


def test_the_command_works_without_torch(perfdoctor: Path, tmp_path: Path) -> None:
    assert "perfdoctor run train.py" in alone(perfdoctor, "--help", cwd=tmp_path)
    assert "too-few-workers" in alone(perfdoctor, "tips", cwd=tmp_path)
    assert "DataLoader(" in alone(perfdoctor, "tips", "too-few-workers", cwd=tmp_path)
    assert "--workers" in alone(perfdoctor, "try", "--list", cwd=tmp_path)


def test_a_script_with_torch_is_watched_and_reported(perfdoctor: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    printed = alone(perfdoctor, "run", sys.executable, script, cwd=tmp_path)
    interpreter, files = json.loads(printed.splitlines()[-1])
    assert interpreter == sys.executable
    assert files
    assert all(Path(file).resolve().is_relative_to(perfdoctor.parents[1].resolve()) for file in files)

    report: dict[str, Any] = json.loads(alone(perfdoctor, "report", "--json", cwd=tmp_path))
    assert report["schema"] == "perfdoctor.report/1"
    assert (report["run"]["exit_code"], report["steps"]["count"]) == (0, 40)
