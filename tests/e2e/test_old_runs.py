"""Runs that an older perfdoctor recorded, before its files had a contract of their own, read as they did then."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from perfdoctor.runs import records
from perfdoctor.wire.events.loaders import LoaderEvent
from perfdoctor.wire.events.ranks import ProcessGroupEvent
from perfdoctor.wire.events.training import WindowEvent
from tests.support.old_runs import OLD, unpacked

pytestmark = pytest.mark.process

WORDS = {"because", "title", "text", "code", "because_shown"}  # what is said of a figure, not the figure
JUDGED = {"low", "likely", "high", "confidence"}  # of gains and verdicts: what new measured ones move
DIGITS = 12  # of a figure: the last of its 16 depend on the order in which numbers are added


def figures(value):
    """The document without its words, and without how far figures are trusted."""
    if isinstance(value, dict):
        return {name: figures(inner) for name, inner in value.items() if name not in WORDS | JUDGED}
    if isinstance(value, str):
        return value.removeprefix(
            "/home/user/train/"
        )  # files are told from the folder of the run, or in full
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return [figures(inner) for inner in value] if isinstance(value, list) else value


def known(value, expected):
    """The document without fields that were added since: those of the schema are never renamed."""
    if isinstance(value, dict) and isinstance(expected, dict):
        return {name: known(inner, expected[name]) for name, inner in value.items() if name in expected}
    if isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected):
        return [known(*both) for both in zip(value, expected, strict=True)]
    return value


@pytest.mark.parametrize("name", ["loader", "two_ranks"])
def test_the_figures_of_an_old_run_are_what_they_were(tmp_path, name):
    run = unpacked(name, tmp_path)
    words = [sys.executable, "-m", "perfdoctor", "report", str(run), "--json"]
    shown = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stderr
    report = json.loads(shown.stdout)
    expected = json.loads((OLD / f"{name}.expected.json").read_text())
    for part in (
        "steps",
        "bottleneck",
        "classes",
        "findings",
        "overhead",
        "loader",
        "cpu",
        "memory",
        "batch",
        "ranks",
    ):
        assert known(figures(report[part]), figures(expected[part])) == figures(expected[part]), part


def test_old_events_are_typed_ones(tmp_path):
    rank = records.read(unpacked("loader", tmp_path)).ranks[0]
    assert [(one.num_workers, one.dataset) for one in rank.of(LoaderEvent)] == [(1, "__main__.Waves")]
    assert "ok" in [window.outcome for window in rank.of(WindowEvent)]


def test_old_ranks_know_their_job(tmp_path):
    ranks = records.read(unpacked("two_ranks", tmp_path)).ranks
    groups = [rank.of(ProcessGroupEvent)[0] for rank in ranks.values()]
    assert [(group.backend, group.world, group.job["rank"]) for group in groups] == [
        ("gloo", 2, 0),
        ("gloo", 2, 1),
    ]
