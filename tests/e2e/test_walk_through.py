"""The code of docs/tip-on-a-new-fact.md, put into a copy of the tree: its tests pass, and a run has the finding."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import DOCS, PACKAGE, ROOT, TESTS

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.process]

FILE = re.compile(r"^`([\w/]+\.py)`[^\n]*\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPT = "train.py"
TIP = "sleeping-loop"


def files() -> dict[str, str]:
    """Each file that the page shows, by its path."""
    return dict(FILE.findall((DOCS / "tip-on-a-new-fact.md").read_text(encoding="utf-8")))


def environment(tree: Path) -> dict[str, str]:
    """What Python needs to import the copy instead of the tree that is tested; one thread leaves others a core."""
    return {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }


def python(tree: Path, *words: str, cwd: Path | None = None) -> str:
    """What Python prints; whatever fails is shown."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd or tree,
        env=environment(tree),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the page's files in it; none of them replaces another."""
    copy = tmp_path_factory.mktemp("walk") / "perfdoctor"
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    for folder in (PACKAGE, TESTS, DOCS):
        shutil.copytree(folder, copy / folder.name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name, text in files().items():
        if name != SCRIPT:
            assert not (copy / name).exists()
            (copy / name).write_text(text, encoding="utf-8")
    return copy


def test_the_page_shows_every_file_from_the_event_to_the_script() -> None:
    assert list(files()) == [
        "perfdoctor/wire/events/sleeps.py",
        "perfdoctor/probe/observers/sleeps.py",
        "perfdoctor/facts/host/sleeps.py",
        "perfdoctor/tips/sleeping_loop.py",
        "tests/probe/observers/test_sleeps.py",
        "tests/facts/host/test_sleeps.py",
        "tests/tips/test_sleeping_loop.py",
        "tests/support/examples/sleeping.py",
        SCRIPT,
    ]


@pytest.mark.slow
def test_the_tests_of_the_page_pass(tree: Path) -> None:
    tests = [name for name in files() if "/test_" in name]
    assert "8 passed" in python(tree, "-m", "pytest", "-q", "-o", "addopts=", *tests)


def test_the_files_keep_the_rules_of_the_house(tree: Path) -> None:
    python(tree, "-m", "pytest", "-q", "-o", "addopts=", "tests/test_house.py")


def test_the_page_of_the_tip_is_written(tree: Path) -> None:
    python(tree, "docs/pages.py")
    assert "time.sleep" in (tree / "docs" / "tips" / f"{TIP}.md").read_text(encoding="utf-8")
    assert f"({TIP}.md)" in (tree / "docs" / "tips" / "index.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_has_the_finding_with_its_line(tree: Path, tmp_path: Path) -> None:
    (tmp_path / SCRIPT).write_text(files()[SCRIPT], encoding="utf-8")
    python(tree, "-m", "perfdoctor", "run", SCRIPT, cwd=tmp_path)
    report = json.loads(python(tree, "-m", "perfdoctor", "report", "--json", cwd=tmp_path))
    finding = next(entry for entry in report["findings"] if entry["id"] == TIP)
    (sleeping,) = [
        number
        for number, line in enumerate(files()[SCRIPT].splitlines(), 1)
        if line.strip().startswith("time.sleep")
    ]
    assert finding["at"][0]["line"] == sleeping
    assert finding["gain"]["likely"] > 1.02
