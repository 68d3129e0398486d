"""The sample scripts: what each says of itself holds, and ten of them run end to end (bench/accuracy.py runs all)."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfdoctor.model.concluded import Verdict
from perfdoctor.runs import directory
from perfdoctor.tips import catalogue
from tests.support.paths import SAMPLES

pytestmark = [pytest.mark.clock, pytest.mark.process, pytest.mark.slow]

FOLDER = SAMPLES
SCRIPTS = sorted(FOLDER.glob("*.py"))
SLOW = [script for script in SCRIPTS if not script.stem.startswith("healthy_")]
# Run whole, as a user would: one of each kind, and short.
WATCHED = (
    "batches_built_in_the_loop",
    "frequent_checkpoints",
    "gradients_in_validation",
    "healthy_classifier",
    "healthy_language_model",
    "logging_every_step",
    "slow_dataset_code",
    "too_few_workers",
    "workers_restart_each_epoch",
    "wrong_thread_count",
)
TIMEOUT_S = 150
MARK = "# <- finding"


def expected(script: Path) -> dict[str, str]:
    """What `# expect: verdict=... finding=...` names, and the lines marked `# <- finding`."""
    lines = script.read_text(encoding="utf-8").splitlines()
    found = [match[1] for line in lines if (match := re.fullmatch(r"# expect: (.+)", line))]
    assert len(found) == 1, f"{script.name} says {len(found)} times what it expects"
    words = dict(word.split("=") for word in found[0].split())
    marked = [str(number) for number, line in enumerate(lines, 1) if line.endswith(MARK)]
    return {"saves": "time", **words, "lines": ",".join(marked)}


def twin(script: Path) -> Path:
    return script.parent / "cured" / script.name


def bare(script: Path) -> str:
    """The program alone: no comments, no docstring."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    return ast.dump(ast.Module(tree.body[1:], tree.type_ignores))


@pytest.fixture(params=SCRIPTS, ids=lambda script: script.stem)
def script(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_says_what_it_expects_in_words_that_exist(script: Path) -> None:
    truth = expected(script)
    assert truth["verdict"] in {verdict.value for verdict in Verdict}
    assert truth["saves"] in {"time", "memory", "correctness", "startup"}
    assert ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))


def test_a_healthy_script_expects_nothing_and_marks_no_line(script: Path) -> None:
    truth = expected(script)
    nothing = (truth["finding"], truth["lines"]) == ("none", "")
    assert nothing == script.stem.startswith("healthy_")
    assert not nothing or truth["verdict"] == "healthy"


@pytest.mark.parametrize("script", SLOW, ids=lambda script: script.stem)
def test_a_slow_script_is_named_after_the_tip_that_it_must_raise(script: Path) -> None:
    assert script.stem.startswith(expected(script)["finding"].replace("-", "_"))
    assert expected(script)["finding"] in {entry.id for entry in catalogue.tips()}


@pytest.mark.parametrize("script", SLOW, ids=lambda script: script.stem)
def test_a_guilty_line_begins_a_statement_or_is_a_decorator(script: Path) -> None:
    nodes = [node for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.stmt)]
    decorators = (each for node in nodes for each in getattr(node, "decorator_list", ()))
    starts = {node.lineno for node in (*nodes, *decorators)}
    truth = expected(script)
    assert {int(line) for line in truth["lines"].split(",") if line} <= starts
    assert truth["lines"] or truth["finding"] == "straggler-rank"  # a rank is late, not a line


@pytest.mark.parametrize("script", SLOW, ids=lambda script: script.stem)
def test_a_slow_script_has_a_twin_that_does_something_else_and_gives_nothing_away(script: Path) -> None:
    cured = twin(script).read_text(encoding="utf-8")
    assert bare(script) != bare(twin(script))
    assert "# expect:" not in cured
    assert MARK not in cured


def test_every_twin_belongs_to_a_script() -> None:
    assert {path.stem for path in (FOLDER / "cured").glob("*.py")} == {script.stem for script in SLOW}


def test_a_tip_says_that_it_was_held_against_scripts_where_it_was() -> None:
    planted = {expected(script)["finding"] for script in SLOW if expected(script)["saves"] == "time"}
    says_so = {entry.id for entry in catalogue.tips() if entry.heading.checked is catalogue.Checked.SCRIPTS}
    assert says_so == planted


def test_there_are_pairs_of_many_kinds_and_healthy_scripts() -> None:
    assert len(SLOW) >= 24
    assert len(SCRIPTS) - len(SLOW) >= 6


def watch(script: Path, folder: Path) -> dict[str, Any]:
    """Run the script watched, and return `report --json`."""
    perfdoctor = [sys.executable, "-m", "perfdoctor"]
    runs = folder / "runs"
    run = [*perfdoctor, "run", "-q", "--out", str(runs), str(script)]
    subprocess.run(run, cwd=folder, check=True, capture_output=True, timeout=TIMEOUT_S)
    report = [*perfdoctor, "report", "--json", str(directory.latest(runs))]
    shown = subprocess.run(report, cwd=folder, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return dict(json.loads(shown.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("name", WATCHED)
def test_names_the_cause_and_the_line_in(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    script = FOLDER / f"{name}.py"
    truth = expected(script)
    report = watch(script, tmp_path)
    assert report["bottleneck"]["verdict"] == truth["verdict"], report["bottleneck"]
    assert sum(report["classes"].values()) == pytest.approx(1.0, abs=1e-6)
    if truth["finding"] == "none":
        assert report["findings"] == []
        return
    first = report["findings"][0]
    assert first["id"] == truth["finding"]
    assert (Path(first["at"][0]["file"]).name, str(first["at"][0]["line"])) == (script.name, truth["lines"])
    gain = first["gain"]
    assert 1.0 < gain["likely"] <= gain["high"]
