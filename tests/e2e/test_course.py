"""Findings about the course of a run, each seen once in a script with its cause planted, as a user would run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_sample_scripts import FOLDER, expected, watch

pytestmark = [pytest.mark.clock, pytest.mark.process, pytest.mark.slow]


@pytest.mark.parametrize(
    "name", ["periodic_stalls", "retained_graph_of_a_metric", "slow_start", "slowing_down"]
)
def test_names_the_cause_and_the_line_in(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = FOLDER / f"{name}.py"
    truth = expected(script)
    report = watch(script, tmp_path)
    found = {finding["id"]: finding for finding in report["findings"]}
    assert truth["finding"] in found
    places = {(Path(at["file"]).name, str(at["line"])) for at in found[truth["finding"]]["at"]}
    assert (script.name, truth["lines"]) in places
