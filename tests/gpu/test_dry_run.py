"""The program for the hour with a GPU, tried out on a CPU: what fails here would fail there."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perfdoctor.model.concluded import Verdict
from perfdoctor.tips import catalogue
from tests.support.launching import environment
from tests.support.paths import DOCS, ROOT

BENCH = ROOT / "bench"
LOADS = BENCH / "loads" / "gpu"
SCRIPTS = sorted(path for path in LOADS.glob("*.py") if path.stem != "common")
# One check of each kind, and the one whose tweak changes something on a CPU.
SUBSET = "machine,runs plain,samples,cause healthy_products,cause unfused_optimizer,tweak --fused-optimizer"
# Each script and twin in turn, in one process: loading torch takes longer than they do. A child is forked for
# each, so that none sees the settings of another.
ALL = """
import os, runpy, sys
import torch, torch._dynamo, torch.utils.data
for script in sys.argv[1:]:
    child = os.fork()
    if not child:
        sys.argv[:] = [script, "--device", "cpu", "--steps", "2"]
        sys.path.insert(0, os.path.dirname(script))
        runpy.run_path(script, run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{script} failed")
    print(script)
"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("gpu")


@pytest.fixture
def checks(gpu: ModuleType) -> ModuleType:
    return importlib.import_module("gpu_checks")


def row(check: str, **more: Any) -> dict[str, Any]:
    return {"check": check, "table": "facts", "cells": [check, "said"], "broken": [], "figures": {}, **more}


def test_each_script_belongs_to_a_check_and_each_check_to_the_page(checks: ModuleType) -> None:
    named = {f"runs_{name}" for name in checks.RUNS} | {
        *checks.CAUSES,
        *checks.FURTHER_CAUSES,
        *checks.OTHERS,
        *checks.FURTHER_OTHERS,
    }
    assert named == {script.stem for script in SCRIPTS}
    assert set(checks.TWEAKS.values()) <= named
    page = (DOCS / "gpu.md").read_text(encoding="utf-8")
    assert [check.name for check in checks.CHECKS if f"`{check.name}`" not in page] == []


@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS if not path.stem.startswith("runs_")])
def test_a_script_says_what_is_to_be_found_and_how_it_is_cured(
    checks: ModuleType, name: str, tmp_path: Path
) -> None:
    truth = checks.written(checks.Here("cpu", tmp_path), name)
    assert truth.verdict in {verdict.value for verdict in Verdict}
    assert truth.healthy == (truth.twin is None)
    assert truth.healthy == name.startswith("healthy_") or name in checks.OTHERS + checks.FURTHER_OTHERS
    if truth.twin is not None:
        assert truth.finding in {tip.id for tip in catalogue.tips()}
        twin = truth.twin.read_text()
        ast.parse(twin)
        assert checks.CURED not in twin


def test_the_cured_line_stands_where_the_guilty_one_stood(checks: ModuleType) -> None:
    guilty = "if wrong:\n    x = a.item()  # <- finding\n    # cured: x = a\ny = x\n"
    assert checks.cured(guilty) == "if wrong:\n    x = a\ny = x\n"


@pytest.mark.process
def test_a_check_that_fails_or_hangs_is_a_row(gpu: ModuleType, checks: ModuleType, tmp_path: Path) -> None:
    machine = next(check for check in checks.CHECKS if check.name == "machine")
    hangs = gpu.perform(machine, "cpu", 0.01, tmp_path / "none.json", None)
    assert hangs["cells"] == ["machine", "failed: more than 0 s"]
    unknown = checks.Check("runs nothing", 1, "runs", machine.run, 60.0)
    fails = gpu.perform(unknown, "cpu", 60.0, tmp_path / "none.json", None)
    assert fails["cells"][:2] == ["nothing", fails["broken"][0]]
    assert fails["broken"][0].startswith("failed: exit status 2: ")
    assert len(fails["cells"]) == len(checks.HEADINGS["runs"])


def test_rows_of_another_device_are_not_shown(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "rows.json"
    gpu.save(kept, [row("machine", device="cpu"), row("samples", device="cuda")])
    assert [each["check"] for each in gpu.earlier(kept, "cuda")] == ["samples"]
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--from", str(kept)])
    assert gpu.main() == 0
    shown = capsys.readouterr().out
    assert "| samples | said |" in shown
    assert "| machine |" not in shown


def test_the_page_keeps_what_is_written_by_hand(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "gpu.md"
    page.write_text(f"by hand\n{gpu.BEGIN}\nold\n{gpu.END}\nmore\n")
    monkeypatch.setattr(gpu, "PAGE", page)
    rows = [
        row("machine", figures={"name": "NVIDIA X", "torch": "2.9"}),
        row("runs gan", table="runs", cells=["gan", "failed: a|b", *["-"] * 5], broken=["failed: a|b"]),
    ]
    gpu.write(rows)
    gpu.write(rows)
    text = page.read_text()
    assert text.startswith("by hand\n")
    assert text.endswith(f"{gpu.END}\nmore\n")
    assert "\nold\n" not in text
    assert text.count("NVIDIA X, torch 2.9") == 1
    assert "| gan | failed: a/b | - |" in text
    assert f"2 of {len(gpu.CHECKS)} run, 1 failed" in text


def test_losses_are_the_same_only_to_the_last_bit(checks: ModuleType) -> None:
    nan = float("nan")
    assert checks.equal([1.0, nan], [1.0, nan, 3.0])
    assert not checks.equal([1.0], [1.0 + 1e-12])
    assert not checks.equal([], [])


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(300)
def test_every_script_and_every_twin_trains(checks: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    here = checks.Here("cpu", tmp_path)
    for script in SCRIPTS:
        if not script.stem.startswith("runs_"):
            checks.written(here, script.stem)
    files = [str(path) for path in [*tmp_path.glob("*.py"), *SCRIPTS] if path.name != checks.COMMON.name]
    uncompiled = environment(TORCHDYNAMO_DISABLE="1", OMP_NUM_THREADS="1")  # as compiling takes minutes
    done = subprocess.run(
        [sys.executable, "-c", ALL, *files], env=uncompiled, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(done.stdout.splitlines()) >= set(files)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(400)
def test_one_check_of_each_kind_goes_through_on_a_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    results = tmp_path / "rows.json"
    words = ["--dry", "--only", SUBSET, "--results", str(results), "--keep", str(tmp_path / "kept")]
    shown = subprocess.run(
        [sys.executable, str(BENCH / "gpu.py"), *words],
        env=environment(PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE="1", HOME=os.environ.get("HOME", "")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    rows = {each["check"]: each for each in json.loads(results.read_text())["rows"]}
    assert list(rows) == SUBSET.split(",")
    plain = rows["runs plain"]
    assert plain["broken"] == [], plain
    assert plain["figures"]["counted"] == plain["figures"]["made"] == 58
    assert plain["figures"]["losses_equal"]
    assert rows["cause unfused_optimizer"]["figures"]["measured"] > 0
    assert rows["tweak --fused-optimizer"]["figures"]["applied"] == ["Adam update"]
    assert (tmp_path / "kept" / "unfused_optimizer" / "run.json").exists()
