"""More than a thousand damaged files: only errors that are meant for users, or pages, come of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.process

INPUTS = 1200  # about 20 s beside a busy machine


@pytest.mark.shows("damaged-run", "damaged-trace", "hostile-files")
def test_nothing_but_errors_meant_for_users_comes_of_damaged_files(tmp_path):
    words = [sys.executable, str(ROOT / "bench" / "fuzz.py"), "--inputs", str(INPUTS), "--seed", "1"]
    shown = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert shown.returncode == 0, shown.stdout[-4000:] + shown.stderr[-2000:]
    total = next(line.split() for line in shown.stdout.splitlines() if line.startswith("│ all"))
    inputs, refused, left_out, read, unexpected = (int(word.replace(",", "")) for word in total[3::2])
    assert (inputs, unexpected) == (refused + left_out + read, 0)
    assert min(refused, left_out, read) > inputs / 10, (
        "damage that is noticed, and damage that does not matter"
    )
