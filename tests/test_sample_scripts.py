"""The sample scripts, end to end: each raises the verdict and the finding that its first lines name, at its line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfdoctor import rundir

pytest.importorskip("torch")
pytest.importorskip("sklearn")

SCRIPTS = sorted((Path(__file__).parents[1] / "sample_scripts").glob("*.py"))
TIMEOUT_S = 150


def expected(script: Path) -> dict[str, str]:
    """What `# expect: verdict=... finding=...` names, and the line marked `# <- finding`."""
    lines = script.read_text().splitlines()
    found = next(re.fullmatch(r"# expect: (.+)", line) for line in lines if line.startswith("# expect: "))
    assert found
    words = dict(word.split("=") for word in found[1].split())
    marked = [str(number) for number, line in enumerate(lines, 1) if line.endswith("# <- finding")]
    return {**words, "line": ",".join(marked)}


def watch(script: Path, folder: Path) -> dict[str, Any]:
    """Run the script watched, and return `report --json`."""
    perfdoctor = [sys.executable, "-m", "perfdoctor"]
    runs = folder / "runs"
    run = [*perfdoctor, "run", "-q", "--out", str(runs), str(script)]
    subprocess.run(run, cwd=folder, check=True, capture_output=True, timeout=TIMEOUT_S)
    report = [*perfdoctor, "report", "--json", str(rundir.latest(runs))]
    shown = subprocess.run(report, cwd=folder, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return dict(json.loads(shown.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_names_the_cause_and_the_line_in(script: Path, tmp_path: Path) -> None:
    truth = expected(script)
    report = watch(script, tmp_path)
    assert report["bottleneck"]["verdict"] == truth["verdict"], report["bottleneck"]
    assert sum(report["classes"].values()) == pytest.approx(1.0, abs=1e-6)
    if truth["finding"] == "none":
        assert report["findings"] == []
        return
    first = report["findings"][0]
    assert first["id"] == truth["finding"]
    assert (Path(first["at"][0]["file"]).name, str(first["at"][0]["line"])) == (script.name, truth["line"])
    gain = first["gain"]
    assert 1.0 < gain["likely"] <= gain["high"]


def test_every_finding_has_a_script_and_some_scripts_are_healthy() -> None:
    findings = [expected(script)["finding"] for script in SCRIPTS]
    assert len(set(findings)) == len(findings) - findings.count("none") + 1
    assert findings.count("none") >= 2
