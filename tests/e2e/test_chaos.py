"""Parts of a watched training are killed at random moments: it ends as without perfdoctor, and its run is readable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.launching import environment
from tests.support.paths import ROOT

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(600)]

ROUNDS = 10  # some eight seconds each; `bench/chaos.py` plays 200


@pytest.mark.shows("killed", "perfdoctor-killed")
def test_whatever_is_killed_costs_no_more_than_the_last_second(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "bench" / "chaos.py"), "--rounds", str(ROUNDS), "--seed", "7"]
    shown = subprocess.run(
        words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert f"{ROUNDS} rounds, a promise broken in 0" in shown.stdout
